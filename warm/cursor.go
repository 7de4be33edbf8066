package warm

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
)

// A cursor is base64url of: the format's number, the first queryHashSize bytes
// of the query's hash, the kind of the value, the length of its text as a
// uvarint, the text, the id, and a CRC-32C of all that. It is opaque to
// callers, but no secret: it only says where in the caller's own query to go
// on.
const (
	cursorFormat  = 1
	queryHashSize = 8
	cursorMin     = 1 + queryHashSize + 1 + 1 + crc32.Size
	maxCursor     = 4096 // characters, twice the longest that is made
)

// QueryHash identifies what a cursor belongs to: everything of a query or list
// but the cursor and the limit.
type QueryHash [queryHashSize]byte

// Hash identifies the query.
func (q Query) Hash() QueryHash {
	order := "ascending"
	if q.Descending {
		order = "descending"
	}
	return hashOf(append([]string{"query", q.Tenant, q.Namespace, q.Prefix, q.User, q.Filter.String(), q.OrderBy, order}, sorted(q.Prefixes)...))
}

// Hash identifies the list.
func (l List) Hash() QueryHash {
	return hashOf(append([]string{"list", l.Tenant, l.Namespace, l.Prefix, l.User}, sorted(l.Prefixes)...))
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

// hashOf hashes parts with their lengths, so that no two lists of parts are
// the same bytes.
func hashOf(parts []string) QueryHash {
	h := sha256.New()
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	return QueryHash(h.Sum(nil)[:queryHashSize])
}

// EncodeCursor returns the cursor that goes on behind the item with value v
// and this id.
func EncodeCursor(query QueryHash, v Value, id string) string {
	b := make([]byte, 0, cursorMin+len(v.Text)+len(id)+binary.MaxVarintLen64)
	b = append(b, cursorFormat)
	b = append(b, query[:]...)
	b = append(b, byte(v.Kind))
	b = binary.AppendUvarint(b, uint64(len(v.Text)))
	b = append(b, v.Text...)
	b = append(b, id...)
	b = binary.BigEndian.AppendUint32(b, checksum(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

// DecodeCursor returns what EncodeCursor was given. A cursor that is damaged,
// or of another query, is invalid (400).
func DecodeCursor(query QueryHash, cursor string) (v Value, id string, err error) {
	damaged := tiering.Invalidf("the cursor is damaged: start again without it")
	if len(cursor) > maxCursor || strings.ContainsAny(cursor, "\r\n") { // which base64 would skip
		return Value{}, "", damaged
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) < cursorMin || b[0] != cursorFormat {
		return Value{}, "", damaged
	}
	b, sum := b[:len(b)-crc32.Size], b[len(b)-crc32.Size:]
	if binary.BigEndian.Uint32(sum) != checksum(b) {
		return Value{}, "", damaged
	}
	if QueryHash(b[1:1+queryHashSize]) != query {
		return Value{}, "", tiering.Invalidf("the cursor belongs to another query: send the query it came from, or start again without it")
	}
	b = b[1+queryHashSize:]
	v.Kind = ValueKind(b[0])
	length, n := binary.Uvarint(b[1:])
	if n <= 0 || length > uint64(len(b)-1-n) {
		return Value{}, "", damaged
	}
	b = b[1+n:]
	v.Text, id = string(b[:length]), string(b[length:])
	if !v.valid() {
		return Value{}, "", damaged
	}
	return v, id, nil
}

// valid reports whether SortKey can have made v.
func (v Value) valid() bool {
	switch v.Kind {
	case NumberValue:
		number, err := jsondoc.Compact([]byte(v.Text))
		return err == nil && jsondoc.KindOf(number) == jsondoc.Number && len(number) == len(v.Text)
	case StringValue:
		return len(v.Text) <= MaxSortText
	}
	return v.Kind <= ObjectValue && v.Text == ""
}

// EncodeIDCursor returns the cursor of a list in id order that goes on behind
// id.
func EncodeIDCursor(list QueryHash, id string) string {
	return EncodeCursor(list, Value{}, id)
}

// DecodeIDCursor returns what EncodeIDCursor was given. A cursor that is
// damaged, or of another list, is invalid (400).
func DecodeIDCursor(list QueryHash, cursor string) (id string, err error) {
	v, id, err := DecodeCursor(list, cursor)
	if err == nil && v.Kind != MissingValue {
		return "", tiering.Invalidf("the cursor belongs to another query: send the query it came from, or start again without it")
	}
	return id, err
}

func checksum(b []byte) uint32 {
	return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
}
