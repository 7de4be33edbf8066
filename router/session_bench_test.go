package router

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tierd/tierd/tiering"
)

// BenchmarkSessionAppend prints what an append of one message of 370 bytes to a session
// costs on the servers of the environment, beside what one does by hand who keeps the
// conversation in a column: rewriting 64 KB of it. All take turns in one run:
//
//	go test -run '^$' -bench SessionAppend -benchtime 400x ./router
//
// Times are medians of lone calls. WAL is how far PostgreSQL's log went meanwhile, at
// the tenth percentile: others on the same server make it too large, never too small.
func BenchmarkSessionAppend(b *testing.B) {
	w := open(b, setup{place: servers})
	hand := newConversation(b, w.path)
	all := w.r.Sessions()
	add := func(id string, n int) {
		events := make([]json.RawMessage, n)
		for i := range events {
			events[i] = json.RawMessage(turnOf370())
		}
		if _, err := all.Append(w.ctx, id, events, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
	for id, entries := range map[string]int{"short": 10, "long": 10_000} {
		w.session(tiering.NewSession{ID: id})
		for n := 1; n < entries; n += min(999, entries-n) {
			add(id, min(999, entries-n))
		}
	}
	took, wal := map[string][]float64{}, map[string][]float64{}
	turn := func(name string, work func()) {
		from := hand.position()
		began := time.Now()
		work()
		took[name] = append(took[name], float64(time.Since(began).Microseconds()))
		wal[name] = append(wal[name], hand.position()-from)
	}
	for b.Loop() {
		turn("short", func() { add("short", 1) })
		turn("long", func() { add("long", 1) })
		turn("hand", hand.rewrite)
	}
	at := func(of []float64, share float64) float64 {
		slices.Sort(of)
		return of[int(share*float64(len(of)))]
	}
	middle := func(of []float64) float64 { return at(of, 0.5) }
	least := func(of []float64) float64 { return at(of, 0.1) }
	b.ReportMetric(middle(took["long"])/middle(took["short"]), "at-10000/at-10")
	b.ReportMetric(middle(took["long"]), "append-us")
	b.ReportMetric(middle(took["hand"]), "rewrite-us")
	b.ReportMetric(middle(took["hand"])/middle(took["long"]), "rewrite/append-time")
	b.ReportMetric(least(wal["long"]), "append-WAL-B")
	b.ReportMetric(least(wal["hand"]), "rewrite-WAL-B")
	b.ReportMetric(least(wal["long"])/float64(len(turnOf370())), "append-WAL/message")
	b.ReportMetric(least(wal["hand"])/least(wal["long"]), "rewrite/append-WAL")
}

// conversation is one row that holds 64 KB of messages.
type conversation struct {
	b    *testing.B
	pool *pgxpool.Pool
	turn int
}

func newConversation(b *testing.B, url string) *conversation {
	b.Helper()
	pool, err := pgxpool.New(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	c := &conversation{b: b, pool: pool}
	b.Cleanup(func() { // the schema is another benchmark's next
		if _, err := pool.Exec(context.Background(), `DROP TABLE IF EXISTS conversation`); err != nil {
			b.Error(err)
		}
	})
	c.do(`CREATE TABLE conversation (id text PRIMARY KEY, body jsonb NOT NULL)`)
	c.do(`ALTER TABLE conversation ALTER body SET COMPRESSION lz4`)
	c.rewrite()
	return c
}

func (c *conversation) do(statement string, args ...any) {
	if _, err := c.pool.Exec(c.b.Context(), statement, args...); err != nil {
		c.b.Fatal(err)
	}
}

// turnOf370 is a message of 370 bytes, with words of its own: no two compress together.
func turnOf370() string {
	var words strings.Builder
	for words.Len() < 342 {
		fmt.Fprintf(&words, "%s ", strconv.FormatUint(rand.Uint64(), 36))
	}
	return `{"role":"user","content":"` + words.String()[:342] + `"}`
}

// rewrite stores the conversation with another message at its end.
func (c *conversation) rewrite() {
	c.turn++
	var body strings.Builder
	body.WriteString(`[`)
	for body.Len() < 64<<10 {
		body.WriteString(turnOf370() + ",")
	}
	fmt.Fprintf(&body, `%d]`, c.turn)
	c.do(`INSERT INTO conversation VALUES ('c', $1) ON CONFLICT (id) DO UPDATE SET body = excluded.body`, body.String())
}

// position is how far PostgreSQL's log is, in bytes.
func (c *conversation) position() (at float64) {
	if err := c.pool.QueryRow(c.b.Context(), `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8`).Scan(&at); err != nil {
		c.b.Fatal(err)
	}
	return at
}

// BenchmarkSessionAppenders prints how many appends a second 64 callers make to one
// session, each behind its own last one, and holds the log dense: every call got
// numbers of its own, and none is missing. An iteration is a second or two. WAL of an
// append is what PostgreSQL wrote meanwhile, of others on the server too.
func BenchmarkSessionAppenders(b *testing.B) {
	for _, place := range []place{embedded, servers} {
		b.Run("tiers="+place.String(), func(b *testing.B) {
			w := open(b, setup{place: place})
			message := []json.RawMessage{json.RawMessage(turnOf370())}
			const appenders, each = 64, 100
			var rates []float64
			wal := func() float64 { return 0 }
			if place == servers {
				wal = newConversation(b, w.path).position
			}
			from := wal()
			for b.Loop() {
				id := fmt.Sprint("busy-", len(rates))
				w.session(tiering.NewSession{ID: id})
				seen := make([]bool, appenders*each+2)
				var mu sync.Mutex
				var all sync.WaitGroup
				began := time.Now()
				for range appenders {
					all.Go(func() {
						for range each {
							a, err := w.r.Sessions().Append(w.ctx, id, message, nil, nil)
							if err != nil {
								b.Error(err)
								return
							}
							mu.Lock()
							if a.FirstSeq != a.LastSeq || a.LastSeq >= int64(len(seen)) || seen[a.LastSeq] {
								b.Errorf("an append got %d to %d", a.FirstSeq, a.LastSeq)
							} else {
								seen[a.LastSeq] = true
							}
							mu.Unlock()
						}
					})
				}
				all.Wait()
				rates = append(rates, appenders*each/time.Since(began).Seconds())
				for seq, ok := range seen[2:] { // behind tierd's own
					if !ok {
						b.Fatalf("nobody got %d", seq+2)
					}
				}
			}
			slices.Sort(rates)
			b.ReportMetric(rates[len(rates)/2], "appends/s")
			b.ReportMetric(rates[len(rates)-1], "best-appends/s")
			if place == servers {
				b.ReportMetric((wal()-from)/float64(len(rates)*appenders*each*len(message[0])), "append-WAL/message")
			}
		})
	}
}
