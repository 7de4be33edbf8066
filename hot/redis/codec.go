package redis

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// What lua/state.lua says of the layout.
const (
	format     = 1
	headerSize = 52
	tokenSize  = 17

	kindNothing   = 0
	kindValue     = 1
	kindTombstone = 2
)

// A value, all big-endian:
//
//	flags 1 | created 12 | updated 12 | expires 12 | ttl 8 | size 8 | digest 32 | length of user 2 | user | body
//
// Version and revision are the rank seen; namespace and id are the key's. A
// time is seconds and nanoseconds since 1970, so that every time.Time survives.
const (
	timeSize  = 12
	restSize  = 8 + 8 + 32 + 2
	valueSize = 1 + 3*timeSize + restSize

	flagPinned = 1
)

var errDamaged = errors.New("redis: an entry cannot be decoded")

// rankBytes are 16 bytes that order as (version, revision) does.
func rankBytes(version, revision int64) []byte {
	b := make([]byte, 0, 16)
	b = binary.BigEndian.AppendUint64(b, uint64(version))
	return binary.BigEndian.AppendUint64(b, uint64(revision))
}

func tokenBytes(t hot.Token) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(t))
}

func appendTime(b []byte, t time.Time) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(t.Unix()))
	return binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond()))
}

func readTime(b []byte) time.Time {
	return time.Unix(int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint32(b[8:]))).UTC()
}

// encodeValue lays out an entry.
func encodeValue(e *hot.Entry) []byte { return appendValue(make([]byte, 0, sizeOfValue(e)), e) }

func sizeOfValue(e *hot.Entry) int { return valueSize + len(e.Meta.User) + len(e.Body) }

func appendValue(b []byte, e *hot.Entry) []byte {
	b = append(b, flags(&e.Meta))
	b = appendTime(b, e.Meta.CreatedAt)
	b = appendTime(b, e.Meta.UpdatedAt)
	b = appendTime(b, e.Meta.ExpiresAt)
	return appendRest(b, e)
}

func flags(m *tiering.Meta) byte {
	if m.Pinned {
		return flagPinned
	}
	return 0
}

// appendRest lays out what follows the times.
func appendRest(b []byte, e *hot.Entry) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(e.Meta.TTL))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Meta.Size))
	b = append(b, e.Meta.Digest[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(e.Meta.User)))
	b = append(b, e.Meta.User...)
	return append(b, e.Body...)
}

// decodeValue reads a value; the body shares b's memory.
func decodeValue(key tiering.Key, version, revision int64, b []byte) (hot.Entry, error) {
	if len(b) < valueSize {
		return hot.Entry{}, errDamaged
	}
	m := tiering.Meta{Namespace: key.Namespace, ID: key.ID, Version: version, Revision: revision}
	m.Pinned = b[0]&flagPinned != 0
	b = b[1:]
	for _, t := range []*time.Time{&m.CreatedAt, &m.UpdatedAt, &m.ExpiresAt} {
		*t, b = readTime(b), b[timeSize:]
	}
	m.TTL = time.Duration(binary.BigEndian.Uint64(b))
	m.Size = int64(binary.BigEndian.Uint64(b[8:]))
	copy(m.Digest[:], b[16:])
	user := int(binary.BigEndian.Uint16(b[48:]))
	if b = b[restSize:]; len(b) < user {
		return hot.Entry{}, errDamaged
	}
	m.User = string(b[:user])
	return hot.Entry{Meta: m, Body: b[user:len(b):len(b)]}, nil
}

// state is what a Redis key holds.
type state struct {
	kind              byte
	pending           bool
	version, revision int64
	value             []byte
}

// decodeState reads what a Redis key held at a time, in microseconds, leaving
// out what had lapsed. Nothing at all is a state too.
func decodeState(b []byte, at int64) (state, error) {
	if len(b) == 0 {
		return state{}, nil
	}
	if len(b) < headerSize || b[0] != format {
		return state{}, errDamaged
	}
	s := state{
		kind:     b[1],
		version:  int64(binary.BigEndian.Uint64(b[4:])),
		revision: int64(binary.BigEndian.Uint64(b[12:])),
	}
	if ends := int64(binary.BigEndian.Uint64(b[28:])); ends > 0 && at >= ends {
		s.kind = kindNothing
	}
	n := int(binary.BigEndian.Uint16(b[2:]))
	b = b[headerSize:]
	if len(b) < n*tokenSize {
		return state{}, errDamaged
	}
	for i := range n {
		if at < int64(binary.BigEndian.Uint64(b[i*tokenSize+8:])) {
			s.pending = true
		}
	}
	s.value = b[n*tokenSize:]
	return s, nil
}

// lookup is what a reader is told of a state.
func (s *state) lookup(key tiering.Key) (hot.Lookup, error) {
	switch {
	case s.pending:
		return hot.Lookup{State: hot.Pending}, nil
	case s.kind == kindValue:
		e, err := decodeValue(key, s.version, s.revision, s.value)
		return hot.Lookup{State: hot.Present, Entry: e}, err
	case s.kind == kindTombstone:
		return hot.Lookup{State: hot.Deleted, Entry: hot.Entry{Meta: tiering.Meta{
			Namespace: key.Namespace, ID: key.ID, Version: s.version, Revision: s.revision,
		}}}, nil
	}
	return hot.Lookup{State: hot.Empty}, nil
}
