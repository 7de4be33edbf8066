package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/postgres"
)

// private starts a server that no other test uses.
func private(t testing.TB) *servicestest.Services {
	t.Helper()
	if os.Getenv("FAILOVER") == "" {
		t.Skip("kills a server of its own: make failover")
	}
	return servicestest.Start(t, "postgres")
}

// TestServerIsKilledUnderWriters: what was acknowledged is there, what is
// unknown settles to what is there, and the store works again without being
// opened anew.
func TestServerIsKilledUnderWriters(t *testing.T) {
	own := private(t)
	ctx := context.Background()
	s, err := postgres.Open(ctx, own.Env("TIERD_WARM"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.EnsureNamespace(ctx, warm.Namespace{Tenant: "acme", Name: "notes", Kind: tiering.KindState, Class: tiering.ClassPersistent}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	want := map[tiering.Key]bool{} // whether it must be there; unknown ones are asked about
	unknown := map[tiering.Key]*warm.Batch{}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := tiering.Key{Tenant: "acme", Namespace: "notes", ID: fmt.Sprintf("%d/%d", w, i)}
				body := []byte(`1`)
				b := &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: key, Rows: []warm.Row{{Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body)}}}}}
				_, err := s.Commit(ctx, b)
				mu.Lock()
				switch {
				case err == nil:
					want[key] = true
				case errors.Is(err, warm.ErrOutcomeUnknown):
					unknown[key] = b
				default:
					want[key] = false
					mu.Unlock()
					time.Sleep(10 * time.Millisecond)
					mu.Lock()
				}
				mu.Unlock()
			}
		})
	}
	time.Sleep(time.Second)
	own.Do("kill", "postgres")
	own.Do("start", "postgres")
	began := time.Now()
	for s.Ping(ctx) != nil {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the store does not come back")
		}
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond)
	close(stop)
	writers.Wait()
	for key, b := range unknown {
		_, committed, err := s.Resolve(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		want[key] = committed
	}
	acknowledged := 0
	for key, there := range want {
		cur, err := s.Load(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if cur.Head.Live(cur.Now) != there {
			t.Errorf("%s is there: %t, want %t", key, !there, there)
		}
		if there {
			acknowledged++
		}
	}
	if err := s.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	_, last, err := s.FeedBounds(ctx)
	if err != nil || last != int64(acknowledged) {
		t.Errorf("the feed has %d entries, want %d, %v", last, acknowledged, err)
	}
	t.Logf("%d writes there, %d of them were unknown", acknowledged, len(unknown))
}
