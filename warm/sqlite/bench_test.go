package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/sqlite"
)

// The benchmarks write 1 KB documents over benchKeys keys.
const benchKeys = 10000

var benchBody = func() []byte {
	var b strings.Builder
	b.WriteString(`{"messages":[`)
	r := rand.New(rand.NewPCG(1, 2))
	for b.Len() < 1000 {
		fmt.Fprintf(&b, `{"role":"user","id":%d,"text":"%x"},`, r.IntN(1e9), r.Uint64())
	}
	return []byte(strings.TrimSuffix(b.String(), ",") + "]}")
}()

// BenchmarkCommit compares a store that is handed what queued while it
// committed ("batches") with one SQLite transaction a write that writes the
// same rows ("straight"). The bars: batches at least 4 times straight at 64
// writers, at least 0.9 of it for a lone one.
//
//	go test -run '^$' -bench BenchmarkCommit -benchtime 2s -count 5 ./warm/sqlite
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 64} {
		for _, way := range []struct {
			name string
			open func(*testing.B) func(tiering.Key, []byte) error
		}{{"straight", straight}, {"batches", batches}} {
			b.Run(fmt.Sprintf("writers=%d/way=%s", writers, way.name), func(b *testing.B) {
				write := way.open(b)
				keys := make([]tiering.Key, benchKeys)
				for i := range keys {
					keys[i] = tiering.Key{Tenant: "default", Namespace: "bench", ID: fmt.Sprintf("agents/%04d/state/%06d", i%97, i)}
				}
				b.ResetTimer()
				var wg sync.WaitGroup
				for w := range writers {
					n := b.N / writers
					if w < b.N%writers {
						n++
					}
					wg.Go(func() {
						r := rand.New(rand.NewPCG(uint64(w), 7))
						for range n {
							if err := write(keys[r.IntN(benchKeys)], benchBody); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
			})
		}
	}
}

// batches writes through the store, in the way of the router's queue: a writer
// who finds nobody committing commits what has queued, his own write first.
func batches(b *testing.B) func(tiering.Key, []byte) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, filepath.Join(b.TempDir(), "bench.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	if _, err := s.EnsureNamespace(ctx, warm.Namespace{Tenant: "default", Name: "bench", Kind: tiering.KindState, Class: tiering.ClassPersistent}); err != nil {
		b.Fatal(err)
	}
	q := &queue{commit: func(changes []warm.Change) error {
		_, err := s.Commit(ctx, &warm.Batch{ID: uuid.Must(uuid.NewV7()), Changes: changes})
		return err
	}}
	return q.write
}

// queue coalesces the writes that arrive while one commit is on its way.
type queue struct {
	commit  func([]warm.Change) error
	mu      sync.Mutex
	busy    bool
	waiting []*queued
}

type queued struct {
	key  tiering.Key
	row  warm.Row
	done chan error // its result, or nothing yet and a nil-error turn to lead
	lead chan struct{}
}

func (q *queue) write(key tiering.Key, body []byte) error {
	own := &queued{key: key, row: warm.Row{Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body), Query: true},
		done: make(chan error, 1), lead: make(chan struct{}, 1)}
	q.mu.Lock()
	q.waiting = append(q.waiting, own)
	if q.busy {
		q.mu.Unlock()
		select {
		case err := <-own.done:
			return err
		case <-own.lead:
		}
		q.mu.Lock()
	}
	q.busy = true
	taken := q.waiting
	q.waiting = nil
	q.mu.Unlock()

	slices.SortStableFunc(taken, func(a, b *queued) int { return a.key.Compare(b.key) })
	var changes []warm.Change
	for _, w := range taken {
		if n := len(changes); n > 0 && changes[n-1].Key == w.key {
			changes[n-1].Rows = append(changes[n-1].Rows, w.row)
			continue
		}
		changes = append(changes, warm.Change{Key: w.key, Rows: []warm.Row{w.row}})
	}
	err := q.commit(changes)

	q.mu.Lock()
	q.busy = false
	if len(q.waiting) > 0 {
		q.busy = true
		q.waiting[0].lead <- struct{}{}
	}
	q.mu.Unlock()
	for _, w := range taken {
		w.done <- err
	}
	return <-own.done
}

// straight is what one writes by hand: a transaction a write, with prepared
// statements and the same rows, settings and schema.
func straight(b *testing.B) func(tiering.Key, []byte) error {
	ctx := context.Background()
	path := filepath.Join(b.TempDir(), "straight.db")
	s, err := sqlite.Open(ctx, path, nil) // makes the schema
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=secure_delete(ON)"+
		"&_pragma=wal_autocheckpoint(1000)&_pragma=cache_size(-16384)&_txlock=immediate")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	var stmts []*sql.Stmt
	for _, q := range []string{
		`INSERT INTO head (ns, id, op, version, revision, created, updated, expires, ttl, accessed, size, flags, digest, user)
			VALUES (1, ?1, 1, 1, 0, ?2, ?2, 0, 0, ?2, ?3, 6, ?4, '')
			ON CONFLICT (ns, id) DO UPDATE SET version = version + 1, updated = excluded.updated, accessed = excluded.accessed,
			size = excluded.size, flags = 6, digest = excluded.digest RETURNING kid, version, created`,
		`INSERT INTO version (kid, version, op, at, created, expires, size, user, digest, coding, body) VALUES (?, ?, 1, ?, ?, 0, ?, '', ?, 0, ?)`,
		`INSERT INTO feed (at, batch, results, changes) VALUES (?, ?, ?, ?)`,
	} {
		stmt, err := db.Prepare(q)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = stmt.Close() })
		stmts = append(stmts, stmt)
	}
	changes := make([]byte, 105) // as long as the store's own
	results := make([]byte, 24)
	return func(key tiering.Key, body []byte) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		now, digest, id := time.Now().UnixMicro(), tiering.DigestOf(body), uuid.Must(uuid.NewV7())
		var kid, version, created int64
		//nolint:sqlclosecheck // a transaction closes its own
		if err := tx.Stmt(stmts[0]).QueryRow([]byte(key.ID), now, len(body), digest[:]).Scan(&kid, &version, &created); err != nil {
			return err
		}
		//nolint:sqlclosecheck // a transaction closes its own
		if _, err := tx.Stmt(stmts[1]).Exec(kid, version, now, created, len(body), digest[:], body); err != nil {
			return err
		}
		//nolint:sqlclosecheck // a transaction closes its own
		if _, err := tx.Stmt(stmts[2]).Exec(now, id[:], results, changes); err != nil {
			return err
		}
		return tx.Commit()
	}
}
