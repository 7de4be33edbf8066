package memory

import (
	"context"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"pgregory.net/rapid"
)

func TestFloorsLiveForOneToTwoGenerations(t *testing.T) {
	const ttl = 30 * time.Second
	// Whenever in a generation a floor is put, and however often somebody
	// turns meanwhile.
	for phase := time.Duration(0); phase < 2*ttl; phase += ttl / 6 {
		for _, every := range []time.Duration{ttl / 10, ttl / 2, ttl - 1} {
			var f floors
			f.put(1, rank{3, 1}, phase, ttl)
			f.put(1, rank{3, 0}, phase, ttl)
			for now := phase; now < phase+ttl; now += every {
				f.turn(now, ttl)
				if got := f.get(1); got != (rank{3, 1}) {
					t.Fatalf("put at %v, at %v the floor is %v", phase, now, got)
				}
			}
			for now := phase + ttl; now <= phase+2*ttl; now += ttl / 10 {
				f.turn(now, ttl)
			}
			if got := f.get(1); got != (rank{}) || f.bytes() != 0 {
				t.Errorf("put at %v, two generations later the floor is %v", phase, got)
			}
		}
	}
	var f floors
	f.put(1, rank{3, 1}, 0, ttl)
	f.put(2, rank{4, 0}, 2*ttl-1, ttl)
	f.turn(2*ttl, ttl)
	if got := f.get(2); got != (rank{4, 0}) {
		t.Errorf("a floor just put, of a generation nobody had turned, is %v", got)
	}
	f = floors{}
	f.put(1, rank{3, 1}, 0, ttl)
	f.turn(2*ttl, ttl)
	if f.bytes() != 0 {
		t.Error("a floor outlives two generations in which nobody turned")
	}
}

// TestBookkeeping plays random calls on a small shard and checks, after each,
// that its sums, queues and agenda agree with its records.
func TestBookkeeping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_900_000_000, 0)
		s := Open(&Options{MaxBytes: 16 << 10, Clock: func() time.Time { return now }})
		defer s.Close()
		ctx, sh := context.Background(), s.shards[0]
		pick := func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(t, what) }
		var lease hot.Token
		for range 80 {
			k := tiering.Key{Tenant: "t", Namespace: "n", ID: string(rune('a' + pick("key", 12)))}
			e := hot.Entry{Meta: tiering.Meta{Version: int64(pick("version", 6))}, Body: make([]byte, 1+pick("size", 4)*1500)}
			ttl := time.Duration(pick("ttl", 3)) * 7 * time.Second
			token := hot.Token(pick("token", 3))
			switch pick("call", 9) {
			case 0:
				_ = s.Mark(ctx, k, token)
			case 1:
				_ = s.Unmark(ctx, k, token)
			case 2, 3:
				_, _ = s.Set(ctx, hot.Set{Key: k, Token: token, Entry: e, TTL: ttl, Deleted: ttl == 0})
			case 4:
				l, _ := s.Get(ctx, k, true)
				lease = max(lease, l.Lease)
			case 5:
				_, _ = s.Fill(ctx, k, lease, e, ttl)
				lease = 0
			case 6:
				_ = s.Drop(ctx, k, e.Meta.Version, 0)
			case 7:
				_, _, _ = s.Swap(ctx, k, tiering.Condition{}, e.Body, ttl)
			case 8:
				sh.mu.Lock()
				now = now.Add(time.Duration(pick("time", 20)) * time.Second)
				sh.mu.Unlock()
				sh.sweep(s.now)
			}
			if fault := audit(sh); fault != "" {
				t.Fatal(fault)
			}
		}
	})
}

// audit returns what does not hold of a shard between calls.
func audit(sh *shard) string {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var bytes, queued int64
	values := 0
	for k, r := range sh.records {
		bytes += r.size()
		next := r.nextLapse()
		switch {
		case r.key != k:
			return "a record is under another key"
		case r.idle():
			return "an idle record is kept"
		case r.cost != r.size():
			return "a record's cost is not its size"
		case (r.value != nil) != (r.queue != nil):
			return "a value is not queued, or a queued record has none"
		case r.value != nil && (r.tombstone != 0 || r.lease != 0 || rankOf(&r.value.entry.Meta) != r.seen):
			return "a value stands beside a tombstone or a lease, or not at what was seen"
		case next > 0 && (r.slot < 0 || r.due > next):
			return "the agenda is late"
		case r.slot >= 0 && sh.agenda[r.slot] != r:
			return "a record is not at its slot"
		}
		if r.value != nil {
			values++
			queued += r.cost
		}
	}
	switch {
	case bytes != sh.bytes:
		return "the sum of bytes is off"
	case queued != sh.small.bytes+sh.main.bytes || values != sh.small.n+sh.main.n:
		return "the queues' sums are off"
	case len(sh.agenda) > len(sh.records):
		return "the agenda holds records that are gone"
	case sh.held() > sh.bound && values > 0:
		return "values are kept above the bound"
	}
	return ""
}
