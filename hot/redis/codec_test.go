package redis

import (
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// FuzzDecode: whatever Redis holds, decoding it ends in a lookup or an error.
func FuzzDecode(f *testing.F) {
	key := tiering.Key{Tenant: "t", Namespace: "ns", ID: "x"}
	value := encodeValue(&hot.Entry{Body: []byte("{}"), Meta: tiering.Meta{User: "u", CreatedAt: time.Unix(1, 2)}})
	header := make([]byte, headerSize)
	header[0] = format
	for kind := range byte(4) {
		header[1] = kind
		f.Add(append(append([]byte{}, header...), value...), int64(0))
	}
	header[3] = 1 // a token
	f.Add(append(append(append([]byte{}, header...), make([]byte, tokenSize)...), value...), int64(-1))
	f.Add(header[:headerSize-1], int64(0))
	f.Add(append(append([]byte{}, header...), 1, 2, 3), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, at int64) {
		s, err := decodeState(b, at)
		if err != nil {
			return
		}
		l, err := s.lookup(key)
		if err == nil && l.State == hot.Present && len(l.Entry.Body) > len(b) {
			t.Errorf("%d bytes hold a body of %d", len(b), len(l.Entry.Body))
		}
	})
}

// TestTimes: every time.Time survives, in UTC.
func TestTimes(t *testing.T) {
	for name, at := range map[string]time.Time{
		"zero":        {},
		"now":         time.Now().UTC().Round(0),
		"1970":        time.Unix(0, 0).UTC(),
		"before":      time.Date(1, 2, 3, 4, 5, 6, 7, time.UTC),
		"nanoseconds": time.Date(2262, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
	} {
		if got := readTime(appendTime(nil, at)); got != at {
			t.Errorf("%s: %v came back as %v", name, at, got)
		}
	}
}

// TestRedisKeys: no two keys, and no key and no marker, share a Redis key.
func TestRedisKeys(t *testing.T) {
	seen := map[string]tiering.Key{}
	for _, epoch := range []string{"", "1", "1:t", "%3A"} {
		e := newEpoch(tiering.HotEpoch{Life: epoch})
		if old, ok := seen[e.marker()]; ok {
			t.Errorf("the marker of %q is the key of %+v", epoch, old)
		}
		seen[e.marker()] = tiering.Key{Tenant: "the marker of " + epoch}
		for _, k := range []tiering.Key{
			{Tenant: "t", Namespace: "n", ID: "i"}, {Tenant: "t:n", Namespace: "i", ID: "i"}, {Tenant: "t", Namespace: "n:i", ID: "i"},
			{Tenant: "t", Namespace: "n", ID: "i:i"}, {Tenant: "t%3An", Namespace: "i", ID: "i"}, {Tenant: "", Namespace: "", ID: ""},
		} {
			if old, ok := seen[e.redisKey(k)]; ok {
				t.Errorf("%+v of epoch %q and %+v share %q", k, epoch, old, e.redisKey(k))
			}
			seen[e.redisKey(k)] = k
		}
	}
}
