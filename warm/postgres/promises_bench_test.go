package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// bareStatement keeps history and nothing else: a head and a version row a
// write, no conditions but one, no owner, no expiry, no feed, no batch id. It is
// what the promises are measured against.
const bareStatement = `WITH up AS (
	INSERT INTO bare_head AS h (id, version, updated) SELECT t.id, 1, clock_timestamp() FROM unnest($1::bytea[]) t(id)
	ON CONFLICT (id) DO UPDATE SET version = h.version + 1, updated = greatest(clock_timestamp(), h.updated + interval '1 us')
	RETURNING id, version, updated
), rows AS (
	INSERT INTO bare_version (id, version, at, digest, body) SELECT u.id, u.version, u.updated, t.digest, t.body
	FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) t(id, digest, body) JOIN up u ON u.id = t.id
) SELECT id, version FROM up`

const bareTables = `CREATE TABLE bare_head (id bytea PRIMARY KEY, version bigint NOT NULL, updated timestamptz NOT NULL) WITH (fillfactor = 70);
	CREATE TABLE bare_version (id bytea NOT NULL, version bigint NOT NULL, at timestamptz NOT NULL, digest bytea NOT NULL, body bytea STORAGE EXTERNAL, PRIMARY KEY (id, version));
	CREATE TABLE st (id text PRIMARY KEY, ver bigint NOT NULL, doc jsonb NOT NULL, updated timestamptz NOT NULL)`

// A promise is taken away from the statement by leaving out its part.
var ablations = []struct {
	name string
	cut  func(putsParts)
}{
	{"all", func(putsParts) {}},
	{"-outbox", func(p putsParts) { p["outbox"] = "" }},
	{"-batch id, outbox", withoutBatch},
	{"-answer", func(p putsParts) { p["answer"] = "\nSELECT ''::bytea, 0::bigint FROM b" }},
	{"-hot epoch", func(p putsParts) { p["answer"] = "\nSELECT changes, 0::bigint FROM b" }},
	{"-clean projections", func(p putsParts) { p["unprojected"] = "" }},
	{"-all of these", func(p putsParts) {
		withoutBatch(p)
		p["unprojected"], p["answer"] = "", "\nSELECT ''::bytea, 0::bigint FROM up"
	}},
}

func withoutBatch(p putsParts) {
	p["outbox"], p["batch"] = "", "b AS (SELECT $2::uuid AS id, $3::bytea AS shape, '\\x02'::bytea || string_agg(int2send((m.ord - 1)::smallint) || m.record, ''::bytea) AS changes FROM made m)"
}

// BenchmarkPromises says what each promise of a commit costs. Contestants take
// turns in short slices; the figures are writes a second, and the median of the
// ratios to "straight", one upsert of JSONB a write, in slices beside each
// other.
//
//	go test -run '^$' -bench BenchmarkPromises -benchtime 9x ./warm/postgres
func BenchmarkPromises(b *testing.B) {
	for _, writers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			all := benchContestants(b)
			rates := make([][]float64, len(all))
			for _, c := range all {
				benchSlice(b, c, writers, 100*time.Millisecond)
			}
			b.ResetTimer()
			for range b.N {
				for i, c := range all {
					rates[i] = append(rates[i], benchSlice(b, c, writers, 300*time.Millisecond))
				}
			}
			b.StopTimer()
			unit := strings.NewReplacer(" -", "-", ", ", "-", " ", "-") // as benchstat reads it
			for i, c := range all {
				ratios := make([]float64, b.N)
				for j := range ratios {
					ratios[j] = rates[i][j] / rates[0][j]
				}
				name := unit.Replace(c.name)
				b.ReportMetric(median(rates[i]), name+"/s")
				b.ReportMetric(median(ratios), name+"/straight")
				b.ReportMetric(c.wal(b), name+"-WAL-B")
			}
		})
	}
}

// BenchmarkHotKey says what a put costs of a key that has no version, and of one
// that has 100,000.
//
//	go test -run '^$' -bench BenchmarkHotKey -benchtime 500x ./warm/postgres
func BenchmarkHotKey(b *testing.B) {
	s := open(b, testURL(b), nil)
	begin(b, s)
	for _, versions := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("versions=%d", versions), func(b *testing.B) {
			key := noteKey(fmt.Sprint("hot", versions))
			for made := 0; made < versions; made += 500 {
				c := warm.Change{Key: key}
				for range 500 {
					c.Rows = append(c.Rows, putRow(`1`))
				}
				if _, err := commitOne(s, c); err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			for range b.N {
				if _, err := commitOne(s, warm.Change{Key: key, Rows: []warm.Row{putRow(`2`)}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func median(of []float64) float64 {
	s := slices.Sorted(slices.Values(of))
	return s[len(s)/2]
}

// contestant is a way to write.
type contestant struct {
	name    string
	pool    *pgxpool.Pool
	write   func(key tiering.Key, body []byte) error
	settle  func(context.Context) error // what the writes left for later; nil: nothing
	written atomic.Int64
}

// wal is how much WAL a write makes, alone.
func (c *contestant) wal(b *testing.B) float64 {
	b.Helper()
	at := func() (n float64) {
		if err := c.pool.QueryRow(context.Background(), `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8`).Scan(&n); err != nil {
			b.Fatal(err)
		}
		return n
	}
	before, had := at(), c.written.Load()
	benchSlice(b, c, 16, 100*time.Millisecond)
	return (at() - before) / float64(c.written.Load()-had)
}

func benchSlice(b *testing.B, c *contestant, writers int, d time.Duration) float64 {
	b.Helper()
	began := time.Now()
	var n atomic.Int64
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for time.Since(began) < d {
				if err := c.write(benchKeys[rand.IntN(len(benchKeys))], benchBody); err != nil {
					if n.Add(1) == 1 {
						b.Error(c.name, err)
					}
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	if c.settle != nil {
		if err := c.settle(context.Background()); err != nil {
			b.Error(c.name, err)
		}
	}
	c.written.Add(n.Load())
	return float64(n.Load()) / time.Since(began).Seconds()
}

func benchContestants(b *testing.B) []*contestant {
	b.Helper()
	ctx := context.Background()
	s := open(b, testURL(b), nil)
	if _, err := s.writers.Exec(ctx, bareTables); err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"bench", "inside"} {
		if _, err := s.EnsureNamespace(ctx, warm.Namespace{Tenant: "acme", Name: name, Kind: tiering.KindState, Class: tiering.ClassPersistent}); err != nil {
			b.Fatal(err)
		}
	}
	// Documents of it are projected in their commits, as where there is an index.
	if _, err := s.writers.Exec(ctx, `UPDATE namespace SET indexed = true WHERE name = 'inside'`); err != nil {
		b.Fatal(err)
	}
	plain, err := s.pool(ctx, 32, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(plain.Close)
	out := []*contestant{
		{name: "straight", write: func(key tiering.Key, body []byte) error {
			_, err := plain.Exec(ctx, `INSERT INTO st AS s (id, ver, doc, updated) VALUES ($1, 1, $2::jsonb, now())
				ON CONFLICT (id) DO UPDATE SET ver = s.ver + 1, doc = excluded.doc, updated = now()`, key.ID, string(body))
			return err
		}},
		{name: "history alone", write: newBenchQueue(s, false, func(changes []warm.Change) error {
			n := len(changes)
			w := &wire{}
			w.byteas(n, func(i int) []byte { return []byte(changes[i].Key.ID) })
			w.byteas(n, func(i int) []byte { return changes[i].Rows[len(changes[i].Rows)-1].Digest[:] })
			w.byteas(n, func(i int) []byte { return changes[i].Rows[len(changes[i].Rows)-1].Body })
			return s.sendCalls(ctx, []call{{name: "bare", sql: bareStatement, args: w.values()}})
		}).write},
		{name: "bytes", write: newBenchQueue(s, false, s.commitBench).write},
		{name: "query", write: newBenchQueue(s, true, s.commitBench).write, settle: s.Project},
		{name: "query in the commit", write: newBenchQueue(s, true, func(changes []warm.Change) error {
			inside := slices.Clone(changes) // the queue knows its own keys
			for i := range inside {
				inside[i].Key.Namespace = "inside"
			}
			return s.commitBench(inside)
		}).write},
	}
	names := map[nsKey]spaceID{}
	for _, a := range ablations {
		statements := map[int]string{}
		for form := range putsForms {
			v := putsVariant{form: form, unprojected: true}
			parts := v.parts()
			a.cut(parts)
			statements[v.number()] = parts.statement()
		}
		out = append(out, &contestant{name: "bytes " + a.name, write: newBenchQueue(s, false, func(changes []warm.Change) error {
			if len(names) == 0 {
				return fmt.Errorf("no namespace")
			}
			p := newPuts(changes, names, s.packAll(changes))
			class, number := s.lockArgs(names, nil)
			lock := &wire{}
			lock.int4s(len(class), func(i int) int32 { return class[i] })
			lock.int4s(len(number), func(i int) int32 { return number[i] })
			lock.text(s.life())
			return s.sendCalls(ctx, []call{{name: "tierd_lock", sql: lockSpaces, args: lock.values()},
				{name: fmt.Sprint(a.name, p.number()), sql: statements[p.number()], args: p.args(nil, nil, uuid.Must(uuid.NewV7()), encodeShape(changes), false).values()}})
		}).write})
	}
	for _, c := range out {
		c.pool = s.writers
	}
	if err := out[2].write(benchKeys[0], benchBody); err != nil {
		b.Fatal(err)
	}
	if names, err = s.numbered(ctx, benchKeys[:1]); err != nil {
		b.Fatal(err)
	}
	return out
}

func (s *Store) commitBench(changes []warm.Change) error {
	_, err := s.Commit(context.Background(), &warm.Batch{ID: uuid.Must(uuid.NewV7()), Changes: changes})
	return err
}

// sendCalls sends what commitPuts would.
func (s *Store) sendCalls(ctx context.Context, calls []call) error {
	return s.transactOn(ctx, s.committers, func(t *txn) error {
		if err := s.prepare(t.ctx, t.conn.Conn(), calls); err != nil {
			return err
		}
		return s.together(t.ctx, t.conn.Conn(), calls, func([][]byte) error { return nil })
	})
}

// benchKeys and benchBody are 10,000 documents of 1 KB.
var (
	benchKeys = func() []tiering.Key {
		keys := make([]tiering.Key, 10000)
		for i := range keys {
			keys[i] = tiering.Key{Tenant: "acme", Namespace: "bench", ID: fmt.Sprintf("agents/%04d/state/%06d", i%97, i)}
		}
		return keys
	}()
	benchBody = func() []byte {
		var b strings.Builder
		b.WriteString(`{"messages":[`)
		r := rand.New(rand.NewPCG(1, 2))
		for b.Len() < 1000 {
			fmt.Fprintf(&b, `{"role":"user","id":%d,"text":"%x"},`, r.IntN(1e9), r.Uint64())
		}
		return []byte(strings.TrimSuffix(b.String(), ",") + "]}")
	}()
)

// benchQueue coalesces the writes that arrive while commits are on their way,
// as the router does: another commit starts only when the rows queued are at
// least the rows in flight. A key is in one batch at a time.
type benchQueue struct {
	query    bool
	most     int
	commit   func([]warm.Change) error
	mu       sync.Mutex
	waiting  []*benchWrite
	inFlight int
	running  int
	busy     map[tiering.Key]bool
}

type benchWrite struct {
	key  tiering.Key
	row  warm.Row
	done chan error
}

func newBenchQueue(s *Store, query bool, commit func([]warm.Change) error) *benchQueue {
	return &benchQueue{query: query, most: s.Capabilities().Committers, commit: commit, busy: map[tiering.Key]bool{}}
}

func (q *benchQueue) write(key tiering.Key, body []byte) error {
	own := &benchWrite{key: key, row: warm.Row{Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body), Query: q.query}, done: make(chan error, 1)}
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
func (q *benchQueue) take() []*benchWrite {
	if len(q.waiting) == 0 || len(q.waiting) < q.inFlight || q.running >= q.most {
		return nil
	}
	var batch, left []*benchWrite
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

func (q *benchQueue) run(batch []*benchWrite) []*benchWrite {
	slices.SortStableFunc(batch, func(a, b *benchWrite) int { return a.key.Compare(b.key) })
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
