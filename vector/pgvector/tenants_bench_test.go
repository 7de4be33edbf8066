package pgvector_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/pgvector"
	"github.com/tierd/tierd/vector/vectortest"
	"github.com/tierd/tierd/warm/postgres"
)

// enough is the recall that a way has to reach to be compared with.
const enough = 0.95

// contestant is a way to search. It has connections of its own, whose processes
// on the server are found by the name it gives them.
type contestant struct {
	name   string
	rows   [2]int // of the tenants that it is asked for
	search func(ctx context.Context, tenant int, q []float32) ([]vector.Hit, error)
	pids   []int
	took   []time.Duration
	used   []time.Duration // of processors, on both sides
	recall float64
}

// BenchmarkTenants searches namespaces of many sizes beside what one writes by
// hand, over one table with a B-tree of tenants and an HNSW index: exact over the
// tenant's rows, and the index with an iterative scan, at several widths.
// Queries are prepared, settings are the session's, and the query's vector is
// sent in pgvector's own form. They take turns, each as often at each place, and
// at each turn with another query, so that none finds what it reads warm from
// the one before. The last figures are those to the better of the ways by
// hand that find enough: of the median, and of the processor time of the client
// and of the server, where that runs on this machine.
func BenchmarkTenants(b *testing.B) {
	w, s, settled := open(b, pgvector.Options{})
	sizes := []int{100, 1000, 4000, 6000, 12_000}
	if n := benchRows(b); n >= 50_000 {
		sizes = append(sizes, 50_000)
	}
	total := 0
	for _, n := range sizes {
		total += n + 60
	}
	pile := vectortest.Clustered(rand.New(rand.NewPCG(uint64(total), 7)), total, benchDims)
	all := map[int][][]float32{}
	bare := byHand(b, s, "load", nil)
	exec := func(sql string, args ...any) {
		if _, err := bare.Exec(b.Context(), sql, args...); err != nil {
			b.Fatal(err)
		}
	}
	exec(`CREATE TABLE bare (tenant int NOT NULL, id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v public.vector(384) NOT NULL)`)
	exec(`ALTER TABLE bare ALTER COLUMN v SET STORAGE PLAIN`)
	for _, n := range sizes {
		all[n], pile = pile[:n+60], pile[n+60:]
		fill(b, w, fmt.Sprint("of-", n), all[n][:n], func(int) string { return "" })
		for page := range slices.Chunk(all[n][:n], 200) {
			vs := make([][]byte, len(page))
			for i, v := range page {
				vs[i] = asVector(v)
			}
			exec(`INSERT INTO bare (tenant, v) SELECT $1, t.v FROM unnest($2::public.vector[]) t(v)`, n, vs)
		}
	}
	exec(`CREATE INDEX ON bare (tenant)`)
	if err := alone(b, bare, `CREATE INDEX ON bare USING hnsw (v public.vector_cosine_ops)`, `VACUUM ANALYZE bare`); err != nil {
		b.Fatal(err)
	}
	vectortest.Settle(b, settled)
	var tuned []string
	if err := bare.QueryRow(b.Context(), `SELECT array_agg(i.indexrelid::regclass || ': ' || coalesce(obj_description(i.indexrelid, 'pg_class'), 'not tuned') ORDER BY 1) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		WHERE i.indrelid = 'memory_vector'::regclass AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'hnsw')`).Scan(&tuned); err != nil {
		b.Fatal(err)
	}
	b.Log(strings.Join(tuned, "; "))
	ways := contestants(b, s, w.Now)
	for _, n := range sizes {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			asked := slices.DeleteFunc(slices.Clone(ways), func(c *contestant) bool { return n < c.rows[0] || n > c.rows[1] })
			contest(b, n, all[n][:n], all[n][n:], asked)
			report(b, asked)
		})
	}
}

// contestants are tierd, and the ways by hand.
func contestants(b *testing.B, s *postgres.Store, now func() time.Time) []*contestant {
	b.Helper()
	config := byHand(b, s, "tierd", nil).Config()
	config.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan" // as the store's
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	x, err := pgvector.Open(b.Context(), pool, &pgvector.Options{Clock: now})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = x.Close() })
	ways := []*contestant{
		{name: "tierd", rows: [2]int{0, math.MaxInt}, search: func(ctx context.Context, n int, q []float32) ([]vector.Hit, error) {
			return x.Nearest(ctx, vector.Scope{Tenant: "acme", Namespaces: []string{fmt.Sprint("of-", n)}}, benchSpace, q, benchK, false)
		}},
		// Of many rows it is hopeless, and takes what the others have from the caches.
		{name: "exact", rows: [2]int{0, 20_000}, search: bareSearch(byHand(b, s, "exact", nil), ` + 0`)}, // by a sum no index knows
	}
	for _, width := range []string{"40", "100", "200"} {
		settings := map[string]string{"hnsw.ef_search": width, "hnsw.iterative_scan": "relaxed_order", "enable_sort": "off", "enable_seqscan": "off"}
		// Of few rows an index of all tenants finds them after a long while only.
		ways = append(ways, &contestant{name: "hnsw" + width, rows: [2]int{4000, math.MaxInt}, search: bareSearch(byHand(b, s, "hnsw"+width, settings), ``)})
	}
	return ways
}

// byHand opens a connection with no settings but its own.
func byHand(b *testing.B, s *postgres.Store, name string, settings map[string]string) *pgxpool.Pool {
	b.Helper()
	own, err := s.Pool(b.Context(), 1)
	if err != nil {
		b.Fatal(err)
	}
	config := own.Config()
	own.Close()
	params := config.ConnConfig.RuntimeParams
	delete(params, "plan_cache_mode")
	params["application_name"] = fmt.Sprintf("bench-%d-%s", os.Getpid(), name)
	maps.Copy(params, settings)
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		var one, many uint32
		if err := c.QueryRow(ctx, `SELECT oid, typarray FROM pg_type WHERE oid = 'public.vector'::regtype`).Scan(&one, &many); err != nil {
			return err
		}
		t := &pgtype.Type{Name: "vector", OID: one, Codec: pgtype.ByteaCodec{}} // bytes, sent as they are
		c.TypeMap().RegisterType(t)
		c.TypeMap().RegisterType(&pgtype.Type{Name: "_vector", OID: many, Codec: &pgtype.ArrayCodec{ElementType: t}})
		return nil
	}
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return pool
}

// asVector is a vector as pgvector sends it.
func asVector(v []float32) []byte {
	out := binary.BigEndian.AppendUint16(make([]byte, 0, 4+4*len(v)), uint16(len(v)))
	out = binary.BigEndian.AppendUint16(out, 0)
	for _, x := range v {
		out = binary.BigEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

// bareSearch is a search as one writes it by hand.
func bareSearch(pool *pgxpool.Pool, order string) func(context.Context, int, []float32) ([]vector.Hit, error) {
	text := `SELECT id, v OPERATOR(public.<=>) $1 FROM bare WHERE tenant = $2 ORDER BY (v OPERATOR(public.<=>) $1)` + order + ` LIMIT 10`
	return func(ctx context.Context, tenant int, q []float32) (hits []vector.Hit, err error) {
		rows, err := pool.Query(ctx, text, asVector(q), tenant)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var h vector.Hit
			var d float64
			if err := rows.Scan(&h.Version, &d); err != nil {
				return nil, err
			}
			h.Score = 1 - d
			hits = append(hits, h)
		}
		return hits, rows.Err()
	}
}

// contest lets ways take turns.
func contest(b *testing.B, n int, vectors, queries [][]float32, ways []*contestant) {
	b.Helper()
	const warm = 12
	for _, c := range ways {
		c.took, c.used, c.recall = nil, nil, 0
	}
	best := make([][]float64, len(queries))
	for i, q := range queries {
		best[i] = vectortest.Exact(q, vectors)
	}
	for round := -warm; round < 0 || b.Loop(); round++ {
		for turn := range ways {
			way := (turn + round + warm) % len(ways)
			c, i := ways[way], (round+warm+way*len(queries)/len(ways))%len(queries)
			used, began := c.processors(b), time.Now()
			hits, err := c.search(b.Context(), n, queries[i])
			took := time.Since(began)
			if err != nil || len(hits) != benchK {
				b.Fatal(c.name, len(hits), err)
			}
			if round < 0 {
				continue
			}
			c.took, c.used = append(c.took, took), append(c.used, c.processors(b)-used)
			c.recall += vectortest.Recall(hits, best[i], benchK)
		}
		if round == -1 {
			for _, c := range ways {
				c.find(b)
			}
		}
	}
	for _, c := range ways {
		c.recall /= float64(len(c.took))
	}
}

// report prints what a contest gave, of the first beside the others.
func report(b *testing.B, ways []*contestant) {
	b.Helper()
	better, cheaper := math.Inf(1), math.Inf(1)
	for i, c := range ways {
		prefix := ""
		if i > 0 {
			prefix = c.name + "-"
		}
		b.ReportMetric(median(c.took), prefix+"p50-us")
		b.ReportMetric(median(c.used), prefix+"cpu-us")
		b.ReportMetric(c.recall, prefix+"recall")
		if i > 0 && c.recall >= enough {
			better, cheaper = min(better, median(c.took)), min(cheaper, median(c.used))
		}
	}
	b.ReportMetric(median(ways[0].took)/better, "of-the-better")
	b.ReportMetric(median(ways[0].used)/cheaper, "cpu-of-the-better")
}

// find looks for the contestant's processes on the server.
func (c *contestant) find(b *testing.B) {
	b.Helper()
	url := os.Getenv("TIERD_WARM")
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	rows, err := conn.Query(b.Context(), `SELECT pid FROM pg_stat_activity WHERE application_name = $1`, fmt.Sprintf("bench-%d-%s", os.Getpid(), c.name))
	if err != nil {
		b.Fatal(err)
	}
	if c.pids, err = pgx.CollectRows(rows, pgx.RowTo[int]); err != nil {
		b.Fatal(err)
	}
}

// processors is the processor time of this process and of the contestant's on
// the server, as far as they are on this machine.
func (c *contestant) processors(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	sum := use.Utime.Nano() + use.Stime.Nano()
	for _, pid := range c.pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if f := bytes.Fields(stat); err == nil && len(f) > 0 {
			n, _ := strconv.ParseInt(string(f[0]), 10, 64) // the kernel's
			sum += n
		}
	}
	return time.Duration(sum)
}

// alone runs statements on a connection without a timeout.
func alone(b *testing.B, pool *pgxpool.Pool, statements ...string) error {
	b.Helper()
	config := pool.Config().ConnConfig.Copy()
	delete(config.RuntimeParams, "statement_timeout")
	c, err := pgx.ConnectConfig(b.Context(), config)
	if err != nil {
		return err
	}
	defer c.Close(b.Context())
	for _, s := range append([]string{`SET maintenance_work_mem = '256MB'`}, statements...) {
		if _, err := c.Exec(b.Context(), s); err != nil {
			return err
		}
	}
	return nil
}
