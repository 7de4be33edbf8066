package router

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/redis"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/postgres"
)

// place is where a world is.
type place int

const (
	embedded place = iota // one daemon, over process memory and SQLite
	shared                // two daemons, over the same
	servers               // two daemons, over Redis and PostgreSQL
)

func (p place) String() string { return [...]string{"embedded", "shared", "servers"}[p] }

func everywhere() []place { return []place{embedded, shared, servers} }

// together is where two daemons are.
func together() []place { return []place{shared, servers} }

// serverTiming is short, for Redis cannot be given a clock, and long enough for
// a machine that is busy.
var serverTiming = hot.Timing{Token: 2 * time.Second, Lease: 2 * time.Second, Tombstone: 2500 * time.Millisecond}

// addresses are the URLs of the servers. Without them a test is skipped, but
// not where continuous integration runs it.
func addresses(t testing.TB) (redisURL, postgresURL string) {
	t.Helper()
	return servicestest.Variable(t, "TIERD_HOT"), servicestest.Variable(t, "TIERD_WARM")
}

// schemaVariable names, to the tests, a schema that they share: their tenants
// are their own.
const schemaVariable = "TIERD_TEST_ROUTER_SCHEMA"

func TestMain(m *testing.M) { os.Exit(runMain(m)) }

func runMain(m *testing.M) int {
	base := os.Getenv("TIERD_WARM")
	if base == "" {
		return m.Run()
	}
	u, drop, err := makeSchema(base)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := drop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	os.Setenv(schemaVariable, u)
	return m.Run()
}

// makeSchema makes an empty schema and returns the URL that leads to it.
func makeSchema(base string) (u string, drop func() error, err error) {
	name := fmt.Sprintf("router_%x", uuid.New())
	run := func(sql string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		c, err := pgx.Connect(ctx, base)
		if err != nil {
			return err
		}
		_, err = c.Exec(ctx, sql)
		c.Close(ctx)
		return err
	}
	parsed, err := url.Parse(base)
	if err != nil {
		return "", nil, err
	}
	q := parsed.Query()
	q.Set("search_path", name)
	parsed.RawQuery = q.Encode()
	return parsed.String(), func() error { return run(`DROP SCHEMA ` + name + ` CASCADE`) }, run(`CREATE SCHEMA ` + name)
}

// epochSetup is what tests of the hot epoch set; the zero value is for the
// others, which share one epoch as they share a schema.
type epochSetup struct {
	own    bool   // a schema, and so an epoch, of its own
	tenant string // that of an earlier world; "": its own
	// hears says which daemons are told of a failover: the reader, the writer.
	hears [2]bool
}

// openServers opens the tiers of two daemons on servers, under a tenant of
// their own.
func (w *world) openServers(s setup) (first, second tiersOf) {
	w.Helper()
	redisURL, base := addresses(w)
	w.timing, w.unit, w.tenant, w.path = serverTiming, time.Second, uuid.NewString(), os.Getenv(schemaVariable)
	if s.epochs.tenant != "" {
		w.tenant = s.epochs.tenant
	}
	if s.epochs.own {
		u, drop, err := makeSchema(base)
		w.no(err)
		w.Cleanup(func() { w.no(drop()) })
		w.path = u
	}
	first = w.openServer(s, redisURL, s.epochs.hears[0])
	if s.place == embedded {
		return first, first
	}
	second = w.openServer(s, redisURL, s.epochs.hears[1])
	if s.hot != nil {
		second.hot = first.hot
	}
	if s.warm != nil {
		second.warm = first.warm
	}
	return first, second
}

// deaf hears of no failover.
type deaf struct{ *redis.Store }

func (deaf) Ended() <-chan tiering.HotEpoch { return nil }

func (w *world) openServer(s setup, redisURL string, hears bool) tiersOf {
	w.Helper()
	store, err := postgres.Open(w.ctx, w.path, &postgres.Options{AfterCommit: s.afterCommit, Committers: 4, Readers: 4})
	w.no(err)
	w.Cleanup(func() { w.no(store.Close()) })
	between := s.warmOf(store)
	epoch, err := between.HotEpoch(w.ctx)
	w.no(err)
	o := &redis.Options{Timing: serverTiming, Epoch: epoch, Timeout: 10 * time.Second, CheckEvery: time.Hour}
	if hears {
		o.CheckEvery = 20 * time.Millisecond
	}
	cache, err := redis.Open(w.ctx, redisURL, o)
	w.no(err)
	w.Cleanup(func() { w.no(cache.Close()) })
	if !hears {
		return tiersOf{s.hotOf(deaf{cache}), between}
	}
	return tiersOf{s.hotOf(cache), between}
}
