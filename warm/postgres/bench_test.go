package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/postgres"
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
// committed with what one writes by hand: one upsert of a JSONB document a
// write ("straight"), without history, feed or conditions. "bytes" keeps no
// projection.
//
//	go test -run '^$' -bench BenchmarkCommit -benchtime 2s -count 5 ./warm/postgres
func BenchmarkCommit(b *testing.B) {
	db := database(b)
	for _, writers := range []int{1, 64} {
		for _, way := range []struct {
			name string
			open func(*testing.B, server) func(tiering.Key, []byte) error
		}{{"straight", straight}, {"batches", batches(true)}, {"bytes", batches(false)}} {
			b.Run(fmt.Sprintf("writers=%d/%s", writers, way.name), func(b *testing.B) {
				write := way.open(b, db)
				keys := make([]tiering.Key, benchKeys)
				for i := range keys {
					keys[i] = tiering.Key{Tenant: "default", Namespace: "bench", ID: fmt.Sprintf("agents/%04d/state/%06d", i%97, i)}
				}
				if err := write(keys[0], benchBody); err != nil {
					b.Fatal(err)
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
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
			})
		}
	}
}

// batches writes through the store in the way of the router's queue.
func batches(query bool) func(*testing.B, server) func(tiering.Key, []byte) error {
	return func(b *testing.B, db server) func(tiering.Key, []byte) error {
		ctx := context.Background()
		s, err := postgres.Open(ctx, db.schema(b, uuid.NewString()), nil)
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
		q := &queue{query: query, most: s.Capabilities().Committers, commit: func(changes []warm.Change) error {
			_, err := s.Commit(ctx, &warm.Batch{ID: uuid.Must(uuid.NewV7()), Changes: changes})
			return err
		}}
		return q.write
	}
}

// queue coalesces the writes that arrive while commits are on their way:
// another starts only when the rows queued are at least the rows in flight. A
// key is in one batch at a time.
type queue struct {
	query    bool
	most     int
	commit   func([]warm.Change) error
	mu       sync.Mutex
	waiting  []*queued
	inFlight int
	running  int
	busy     map[tiering.Key]bool
}

type queued struct {
	key  tiering.Key
	row  warm.Row
	done chan error
}

func (q *queue) write(key tiering.Key, body []byte) error {
	own := &queued{key: key, row: warm.Row{Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body), Query: q.query}, done: make(chan error, 1)}
	q.mu.Lock()
	q.waiting = append(q.waiting, own)
	batch := q.take()
	q.mu.Unlock()
	for batch != nil {
		batch = q.run(batch)
	}
	return <-own.done
}

// take returns the next batch, nil while it is not its turn.
func (q *queue) take() []*queued {
	if len(q.waiting) == 0 || len(q.waiting) < q.inFlight || q.running >= q.most {
		return nil
	}
	if q.busy == nil {
		q.busy = map[tiering.Key]bool{}
	}
	var batch, left []*queued
	own := map[tiering.Key]bool{}
	for _, w := range q.waiting {
		if q.busy[w.key] && !own[w.key] {
			left = append(left, w)
			continue
		}
		q.busy[w.key], own[w.key] = true, true
		batch = append(batch, w)
	}
	if batch == nil {
		return nil
	}
	q.waiting = left
	q.inFlight += len(batch)
	q.running++
	return batch
}

func (q *queue) run(batch []*queued) []*queued {
	slices.SortStableFunc(batch, func(a, b *queued) int { return a.key.Compare(b.key) })
	var changes []warm.Change
	for _, w := range batch {
		if n := len(changes); n > 0 && changes[n-1].Key == w.key {
			changes[n-1].Rows = append(changes[n-1].Rows, w.row)
			continue
		}
		changes = append(changes, warm.Change{Key: w.key, Rows: []warm.Row{w.row}})
	}
	err := q.commit(changes)
	q.mu.Lock()
	q.inFlight -= len(batch)
	q.running--
	for _, c := range changes {
		delete(q.busy, c.Key)
	}
	next := q.take()
	q.mu.Unlock()
	for _, w := range batch {
		w.done <- err
	}
	return next
}

// straight is an upsert a write.
func straight(b *testing.B, db server) func(tiering.Key, []byte) error {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(db.schema(b, uuid.NewString()))
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	if _, err := pool.Exec(ctx, `CREATE TABLE st (id text PRIMARY KEY, ver bigint NOT NULL, doc jsonb NOT NULL, updated timestamptz NOT NULL)`); err != nil {
		b.Fatal(err)
	}
	return func(key tiering.Key, body []byte) error {
		_, err := pool.Exec(ctx, `INSERT INTO st AS s (id, ver, doc, updated) VALUES ($1, 1, $2::jsonb, now())
			ON CONFLICT (id) DO UPDATE SET ver = s.ver + 1, doc = excluded.doc, updated = now()`, key.ID, string(body))
		return err
	}
}
