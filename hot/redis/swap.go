package redis

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// Swap implements hot.Store. An error leaves it open whether the write was made,
// as does every lost reply. A negative ttl is invalid.
func (s *Store) Swap(ctx context.Context, key tiering.Key, cond tiering.Condition, body []byte, ttl time.Duration) (hot.Entry, bool, error) {
	if ttl < 0 {
		return hot.Entry{}, false, tiering.Invalidf("a life of %v is over before it begins", ttl)
	}
	e := hot.Entry{Body: body, Meta: tiering.Meta{Namespace: key.Namespace, ID: key.ID, Size: int64(len(body))}}
	deleted := 1
	if body != nil {
		deleted = 0
		e.Meta.Digest, e.Meta.TTL = tiering.DigestOf(body), ttl
	}
	name, wanted := condition(cond)
	rest := appendRest(make([]byte, 0, restSize+len(body)), &e)
	reply, stands, err := s.run(ctx, s.scripts.swap, key, len(rest), name, wanted, deleted,
		int64(ttl/time.Second), int64(ttl%time.Second), micros(s.Timing.Tombstone),
		appendTime(nil, time.Time{}), []byte{flags(&e.Meta)}, rest)
	if err == nil && !stands {
		err = ErrFailedOver
	}
	if err != nil {
		return hot.Entry{}, false, err
	}
	parts, _ := reply.([]any)
	if len(parts) > 0 && parts[0] == int64(0) {
		e, err := refused(key, parts)
		return e, false, err
	}
	if err := decided(&e.Meta, parts); err != nil {
		return hot.Entry{}, false, err
	}
	return e, true, nil
}

// condition names what cond asks of what stands; wanted are the bytes of a
// version.
func condition(cond tiering.Condition) (name string, wanted []byte) {
	v, ok := cond.Version()
	switch {
	case cond.Absent():
		return "absent", nil
	case cond.Exists():
		return "exists", nil
	case ok:
		return "version", binary.BigEndian.AppendUint64(nil, uint64(v))
	}
	return "any", nil
}

// refused reads {0, what stands}: the script has looked already whether it
// lives.
func refused(key tiering.Key, parts []any) (hot.Entry, error) {
	if len(parts) < 2 || parts[1] == nil {
		return hot.Entry{}, nil
	}
	st, err := decodeState([]byte(text(parts[1])), 0)
	if err != nil {
		return hot.Entry{}, err
	}
	return decodeValue(key, st.version, st.revision, st.value)
}

// decided reads {1, version, created, updated, expires} into m.
func decided(m *tiering.Meta, parts []any) error {
	if len(parts) != 5 || len(text(parts[1])) != 8 {
		return errReply
	}
	m.Version = int64(binary.BigEndian.Uint64([]byte(text(parts[1]))))
	for i, t := range []*time.Time{&m.CreatedAt, &m.UpdatedAt, &m.ExpiresAt} {
		b := []byte(text(parts[2+i]))
		if len(b) != timeSize {
			return errReply
		}
		*t = readTime(b)
	}
	return nil
}
