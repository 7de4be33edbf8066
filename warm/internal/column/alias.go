package column

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/tierd/tierd/warm"
)

// AliasOf makes the alias of a life of a key: the number of its row, and a seal of
// the number, of when the life began (as Micros) and of the store's epoch. A number
// that is used again, by another life of the key or by another key, has another
// seal; neither says anything of the key.
func AliasOf(epoch string, number, created int64) warm.Alias {
	b := binary.BigEndian.AppendUint64(nil, uint64(number))
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(b[:8:8], uint64(created)), epoch...))
	return warm.Alias(base64.RawURLEncoding.EncodeToString(append(b, sum[:8]...)))
}

// AliasNumber reads the number of the row that an alias may lead to, 0 for what is
// no alias. It leads there when AliasOf gives it for what the row holds.
func AliasNumber(a warm.Alias) int64 {
	b, err := base64.RawURLEncoding.DecodeString(string(a))
	if err != nil || len(b) != 16 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}
