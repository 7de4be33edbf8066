package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/minio/minio-go/v7"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
)

// TestReplayBesideArticle saves the sessions of REPLAY_DATA through two daemons
// over HTTP, 16 at once, and beside it in the way of a well-known article: Redis
// SET, an upsert of the whole session as JSONB, and a goroutine that puts each
// version to S3, for which nobody waits. They take turns, a quarter of the
// sessions each: what it measures are ratios of adjacent turns.
func TestReplayBesideArticle(t *testing.T) {
	sessions := realSessions(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	s := startServers(t)
	binary := daemontest.Build(t)
	whole, parts := s.fleet(binary, "whole"), s.fleet(binary, "parts")
	a := newArticle(ctx, t, s)

	const turns = 4
	l := &load{acked: newAcked(), sessions: sessions}
	var put, appended, drained []float64
	for turn := range turns {
		some := sessions[len(sessions)*turn/turns : len(sessions)*(turn+1)/turns]
		n, _ := rawBytes(some)
		saves := a.rate(ctx, t, some)
		all := a.drain(n)
		p := rate(t, n, some, func(x session, n int) error {
			rc, _, err := whole.put(ctx, x, n)
			if err == nil {
				l.acked.add(x.id, rc.Version, time.Time{}, time.Time{})
			}
			return err
		})
		q := rate(t, n, some, func(x session, n int) error { return parts.appendTo(ctx, x, n) })
		put, appended, drained = append(put, p/saves), append(appended, q/saves), append(drained, p/all)
		t.Logf("turn %d, saves/s: article %.0f (%.0f until all is in S3), put %.0f, append %.0f", turn, saves, all, p, q)
	}
	t.Logf("saves/s, median of %d turns: put of the whole session / article %.2f (%.2f of article until all is in S3), append of the message / article %.2f",
		turns, median(put), median(drained), median(appended))
	whole.checkVersions(ctx, t, l, sessions, "what was put")
	parts.checkAppended(ctx, t, sessions)
	parts.stop()
	whole.stop()
	a.bytesBeside(ctx, t, whole.config, sessions)
}

// fleet starts two daemons on a schema and buckets of their own.
func (s *servers) fleet(binary, schema string) *fleet {
	f := newFleet(s.t, binary, tierd.Config{Hot: s.hot, Warm: s.schema(schema), Cold: servicestest.Bucket(s.t, s.cold, false), Backup: servicestest.Bucket(s.t, s.backup, false)})
	f.start()
	return f
}

// bytesBeside compares what article takes, in PostgreSQL and its bucket, with
// what the closed store of c takes in PostgreSQL and one of its buckets: on disk
// as both were left, and what lives of both once superseded versions have left
// PostgreSQL.
func (a *article) bytesBeside(ctx context.Context, t *testing.T, c tierd.Config, sessions []session) {
	t.Helper()
	node, err := tierd.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer closeNode(t, node)
	if err := node.Archive(ctx); err != nil {
		t.Fatal(err)
	}
	a.s.sql(`VACUUM`)
	full, bucket, theirs := a.s.schemaBytes("whole"), bucketBytes(t, c.Backup), a.s.schemaBytes("article")
	t.Logf("the largest tables: %s", a.s.largest("whole"))
	if _, err := node.PatchNamespace(ctx, namespace, []byte(`{"retire_after":"1s"}`), nil); err != nil {
		t.Fatal(err)
	}
	// The daemons that were stopped hold the sweeper's lease for a while yet.
	for began := time.Now(); a.s.rows("whole.version") > 2*int64(len(sessions)); time.Sleep(time.Second) {
		if time.Since(began) > time.Minute {
			t.Fatalf("%d versions are still in PostgreSQL", a.s.rows("whole.version"))
		}
		if err := node.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
	}
	a.s.sql(`VACUUM FULL`)
	living, alive := a.s.schemaBytes("whole"), a.s.schemaBytes("article")
	total, raw := rawBytes(sessions)
	onDisk, share := float64(full+bucket)/float64(theirs+raw), float64(living+bucket)/float64(alive+raw)
	t.Logf("%d versions, article's bucket %.1f MB, one of ours %.1f MB", total, mb(raw), mb(bucket))
	t.Logf("PostgreSQL on disk: article %.1f MB, ours %.1f MB with all versions: with a bucket %.2f of article's", mb(theirs), mb(full), onDisk)
	t.Logf("PostgreSQL without dead rows: article %.1f MB, ours %.1f MB without superseded versions: with a bucket %.2f of article's", mb(alive), mb(living), share)
	if share > 0.25 {
		t.Errorf("%.2f of article's bytes: more than a quarter", share)
	}
}

func mb(n int64) float64 { return float64(n) / 1e6 }

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}

// rate saves every step of every session, many sessions at once, and returns
// saves a second.
func rate(t *testing.T, total int, sessions []session, save func(s session, n int) error) float64 {
	t.Helper()
	work := make(chan session)
	var wg sync.WaitGroup
	began := time.Now()
	for range parallel {
		wg.Go(func() {
			for s := range work {
				for n := range s.docs {
					if err := save(s, n); err != nil {
						t.Errorf("%s step %d: %v", s.id, n, err)
						break
					}
				}
			}
		})
	}
	for _, s := range sessions {
		work <- s
	}
	close(work)
	wg.Wait()
	return float64(total) / time.Since(began).Seconds()
}

// appendTo saves a step as an agent does that sends what is new: its message.
func (f *fleet) appendTo(ctx context.Context, s session, n int) error {
	if n == 0 {
		_, _, err := f.put(ctx, s, n)
		return err
	}
	_, err := f.clients[n%2].Apply(ctx, namespace, s.id, []tiering.EditOp{{Op: "append", Pointer: "/messages", Value: s.messages[n]}}, nil)
	return err
}

// checkAppended: every version of sessions that grew by appends is there, with
// the bytes that a put of the whole would have had.
func (f *fleet) checkAppended(ctx context.Context, t *testing.T, sessions []session) {
	t.Helper()
	each(t, sessions, func(s session) error {
		h, err := f.clients[0].History(ctx, namespace, s.id, &tiering.HistoryOptions{Limit: 1000})
		if err != nil || len(h.Versions) != len(s.docs) {
			return fmt.Errorf("%s has %d versions, want %d: %w", s.id, len(h.Versions), len(s.docs), err)
		}
		for n, doc := range s.docs {
			v := h.Versions[len(s.docs)-1-n].Version
			got, err := f.clients[n%2].Get(ctx, namespace, s.id, &tiering.GetOptions{Version: v})
			if err != nil || !sameJSON(got.Body, doc) {
				return fmt.Errorf("%s version %d: %w", s.id, v, err)
			}
		}
		return nil
	})
}

// sameJSON compares what two texts mean: a client may escape characters that
// another leaves as they are.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	normal := func(b []byte) string {
		var v any
		if json.Unmarshal(b, &v) != nil {
			return ""
		}
		out, _ := json.Marshal(v)
		return string(out)
	}
	return normal(a) == normal(b)
}

// article writes as one does by hand.
type article struct {
	s       *servers
	pool    *pgxpool.Pool
	api     *minio.Client
	bucket  string
	slots   chan struct{}
	running sync.WaitGroup
	failed  atomic.Int64
	began   time.Time
}

// uploads is how many PUTs of article run at once.
const uploads = 32

func newArticle(ctx context.Context, t *testing.T, s *servers) *article {
	t.Helper()
	config, err := pgxpool.ParseConfig(s.schema("article"))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns, config.MinConns = 32, 32
	a := &article{s: s, slots: make(chan struct{}, uploads)}
	if a.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.pool.Close)
	if _, err := a.pool.Exec(ctx, `CREATE TABLE st (id text PRIMARY KEY, ver bigint NOT NULL, doc jsonb NOT NULL, updated timestamptz NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	p := placeOf(t, servicestest.Bucket(s.t, s.cold, false))
	a.api, a.bucket = servicestest.Objects(t, p), p.Bucket
	return a
}

// rate saves the sessions, and does not wait for the uploads.
func (a *article) rate(ctx context.Context, t *testing.T, sessions []session) float64 {
	t.Helper()
	total, _ := rawBytes(sessions)
	a.began = time.Now()
	return rate(t, total, sessions, func(s session, n int) error {
		doc := s.docs[n]
		if err := a.s.redis.Set(ctx, "article:"+s.id, doc, time.Hour).Err(); err != nil {
			return err
		}
		// NUL has no place in JSONB: article loses it.
		text := strings.ReplaceAll(string(doc), `\u0000`, "")
		_, err := a.pool.Exec(ctx, `INSERT INTO st AS s (id, ver, doc, updated) VALUES ($1, 1, $2::jsonb, now())
			ON CONFLICT (id) DO UPDATE SET ver = s.ver + 1, doc = excluded.doc, updated = now()`, s.id, text)
		if err != nil {
			return err
		}
		a.running.Go(func() {
			a.slots <- struct{}{}
			defer func() { <-a.slots }()
			name := fmt.Sprintf("%s/%d", url.PathEscape(s.id), n)
			_, err := a.api.PutObject(context.WithoutCancel(ctx), a.bucket, name, bytes.NewReader(doc), int64(len(doc)), minio.PutObjectOptions{DisableMultipart: true})
			if err != nil {
				a.failed.Add(1)
			}
		})
		return nil
	})
}

// drain waits for the uploads, and returns saves a second with them.
func (a *article) drain(total int) float64 {
	a.running.Wait()
	if n := a.failed.Load(); n > 0 {
		a.s.t.Errorf("article: %d uploads failed", n)
	}
	return float64(total) / time.Since(a.began).Seconds()
}
