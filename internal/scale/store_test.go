package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
)

const (
	namespace = "scale"
	fillBatch = 1000 // documents
	fillers   = 16
	// young is what documents have to be to stay in warm; old, to leave it.
	young = tiering.Duration(30 * 24 * time.Hour)
	old   = tiering.Duration(time.Second)
)

// store is a daemon over tiers of its own, and what a caller needs to load it.
type store struct {
	t      *testing.T
	name   string
	keys   int
	daemon *daemontest.Daemon
	client *client.Client
	plain  *http.Client // for what is timed: it decodes nothing
}

// openStore starts a daemon that holds nothing yet: on schemas, buckets and keys
// of its own on the servers of the tests, or embedded.
func openStore(t *testing.T, binary, name string, embedded bool, keys int) *store {
	t.Helper()
	var env []string
	if !embedded {
		warm, schema := servicestest.Schema(t)
		hot := servicestest.Variable(t, "TIERD_HOT")
		env = []string{
			"TIERD_HOT=" + hot, "TIERD_WARM=" + warm,
			"TIERD_COLD=" + servicestest.Bucket(t, servicestest.Variable(t, "TIERD_COLD"), false),
			"TIERD_BACKUP=" + servicestest.Bucket(t, servicestest.Variable(t, "TIERD_BACKUP"), false),
		}
		t.Cleanup(func() {
			forget(t, hot, servicestest.Text(t, warm, `SELECT word FROM `+schema+`.meta WHERE name = 'epoch'`))
		})
	}
	s := &store{
		t: t, name: name, keys: keys, daemon: daemontest.New(t, binary, &daemontest.Options{Env: env}),
		plain: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
	s.daemon.MustStart()
	var err error
	if s.client, err = client.New(s.daemon.URL(), &client.Options{Timeout: 2 * time.Minute, RememberWrites: -1}); err != nil {
		t.Fatal(err)
	}
	return s
}

// forget removes what a life of a warm store left in Redis.
func forget(t *testing.T, hot, life string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	o, err := redis.ParseURL(hot)
	if err != nil {
		t.Error(err)
		return
	}
	c := redis.NewClient(o)
	defer c.Close()
	var keys []string
	unlink := func(atLeast int) error {
		if len(keys) < atLeast {
			return nil
		}
		err := c.Unlink(ctx, keys...).Err()
		keys = keys[:0]
		return err
	}
	found := c.Scan(ctx, 0, "*"+life+"*", 5000).Iterator()
	for err == nil && found.Next(ctx) {
		keys = append(keys, found.Val())
		err = unlink(1000)
	}
	if err := errors.Join(err, found.Err(), unlink(1)); err != nil {
		t.Errorf("forget what is in Redis: %v", err)
	}
}

// policy sets the policy of the namespace.
func (s *store) policy(p tiering.Policy) {
	s.t.Helper()
	if _, err := s.client.SetNamespace(s.t.Context(), namespace, p, nil); err != nil {
		s.t.Fatal(err)
	}
}

func id(n int) string { return fmt.Sprintf("agents/%04d/sessions/%07d", n%997, n) }

// document is one of 200 to 1,000 bytes, as an agent would keep.
func document(n int, r *rand.Rand) []byte {
	doc := fmt.Appendf(nil, `{"agent":"agent-%04d","session":"%016x","step":%d,"status":"active","notes":"`, n%997, r.Uint64(), r.IntN(100))
	for size := 200 + r.IntN(800); len(doc) < size-2; {
		doc = fmt.Appendf(doc, "%s %05d ", words[r.IntN(len(words))], r.IntN(100_000))
	}
	return append(doc, `"}`...)
}

var words = strings.Fields("flight booking customer refund luggage policy change total economy upgrade cancel delay connection summary schedule departure arrival gate")

// fill writes all documents, in batches by several callers. hot forgets them soon,
// so that what is read later has to be looked up in warm.
func (s *store) fill() time.Duration {
	s.t.Helper()
	s.policy(tiering.Policy{HotTTL: tiering.Duration(5 * time.Second), DemoteAfter: young})
	began := time.Now()
	errs := make([]error, fillers)
	var all sync.WaitGroup
	for w := range fillers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), uint64(s.keys)))
			for first := w * fillBatch; first < s.keys && errs[w] == nil; first += fillers * fillBatch {
				errs[w] = s.fillFrom(first, r)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		s.t.Fatal(err)
	}
	took := time.Since(began)
	s.policy(tiering.Policy{DemoteAfter: young})
	return took
}

func (s *store) fillFrom(first int, r *rand.Rand) error {
	b := &tiering.Batch{}
	for n := first; n < min(first+fillBatch, s.keys); n++ {
		b.Ops = append(b.Ops, tiering.BatchOp{Op: "put", Namespace: namespace, ID: id(n), Data: document(n, r)})
	}
	res, err := s.client.Batch(s.t.Context(), b)
	if err != nil {
		return err
	}
	for _, one := range res.Results {
		if one.Status >= 300 {
			return fmt.Errorf("a put of the fill answered %d: %+v", one.Status, one.Error)
		}
	}
	return nil
}

// call makes one request, and returns how long it took until the last byte of the
// answer, and which tier served it.
func (s *store) call(ctx context.Context, method, path string, body []byte) (took time.Duration, tier string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, s.daemon.URL()+"/v1/state/"+namespace+path, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	began := time.Now()
	res, err := s.plain.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	took = time.Since(began)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s answered %d: %s", method, path, res.StatusCode, said)
	}
	return took, res.Header.Get("Tierd-Tier"), err
}

func (s *store) get(ctx context.Context, n int) (time.Duration, string, error) {
	return s.call(ctx, http.MethodGet, "/"+id(n), nil)
}

func (s *store) put(ctx context.Context, n int, r *rand.Rand) (time.Duration, error) {
	took, _, err := s.call(ctx, http.MethodPut, "/"+id(n), document(n, r))
	return took, err
}

// list reads a page of 1,000 documents.
func (s *store) list(ctx context.Context, cursor string) (time.Duration, error) {
	took, _, err := s.call(ctx, http.MethodGet, "?limit=1000&cursor="+cursor, nil)
	return took, err
}

// middle is the cursor of a page in the middle.
func (s *store) middle() string {
	s.t.Helper()
	cursor := ""
	for range max(1, s.keys/2000) {
		res, err := s.plain.Get(s.daemon.URL() + "/v1/state/" + namespace + "?limit=1000&cursor=" + cursor)
		if err != nil {
			s.t.Fatal(err)
		}
		var page struct {
			Next string `json:"next_cursor"`
		}
		err = json.NewDecoder(res.Body).Decode(&page)
		if err := errors.Join(err, res.Body.Close()); err != nil || page.Next == "" {
			s.t.Fatalf("a page of the list has no next one: %v", err)
		}
		cursor = page.Next
	}
	return cursor
}
