package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/internal/fault"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
)

// cutCommits: writers whose commits lose their replies, between the daemon and
// PostgreSQL and between the client and the daemon, try again with the same
// Idempotency-Key, and every write has exactly one effect. A round is one reply
// of a commit that was cut.
func cutCommits(t *testing.T, c *course) { cutAndRetry(t, c, true) }

// TestCutCommitsNeedTheKey: without the key the retries leave two effects, and the
// campaign says so.
func TestCutCommitsNeedTheKey(t *testing.T) {
	finds(t, 40, twice, func(c *course) { cutAndRetry(t, c, false) })
}

func cutAndRetry(t *testing.T, c *course, keyed bool) {
	schema, _ := servicestest.Schema(t)
	database, warm := proxied(t, schema, fault.Postgres)
	front, url := proxied(t, daemontest.Serve(t, tierd.Config{Data: t.TempDir(), Hot: "memory:", Warm: warm, Cold: "dir:" + t.TempDir(), Backup: "dir:" + t.TempDir(),
		SegmentAge: 200 * time.Millisecond}), fault.HTTP)
	w := &effects{course: c, client: dial(t, url, patience), keyed: keyed}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	w.prepare(ctx, t)
	database.Play(fault.First(
		counted(c, fault.Sometimes(c.seed, 6, fault.At(fault.Reply, "INSERT INTO batch"), fault.Reset, fault.Cut, fault.Half)),
		counted(c, fault.Sometimes(c.seed+1, 12, fault.At(fault.Sent, "INSERT INTO batch"), fault.Reset)),
	))
	front.Play(fault.Sometimes(c.seed+2, 5, fault.At(fault.Reply, "POST "), fault.Reset, fault.Half))
	w.writeAll(ctx)
	for _, p := range []*fault.Proxy{database, front} {
		p.Play(nil)
		for _, n := range p.Faults() {
			c.inject(n)
		}
	}
	w.check(ctx)
	c.note("%d writes, %d tries", w.done.Load(), w.tries.Load())
}

// counted takes a round of c for each fault of s, and stops when there is none
// left.
func counted(c *course, s fault.Script) fault.Script {
	return func(e fault.Event) fault.Kind {
		if k := s(e); k != fault.Pass && c.more() {
			return k
		}
		return fault.Pass
	}
}

// effects are writes of which each can be told apart afterwards.
type effects struct {
	*course
	client      *client.Client
	keyed       bool
	done, tries atomic.Int64

	mu   sync.Mutex
	acks map[string]map[string]bool // by key, the tokens that were acknowledged
}

func (w *effects) prepare(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := w.client.SetNamespace(ctx, lines, tiering.Policy{Kind: tiering.KindLog}, nil); err != nil {
		t.Fatal(err)
	}
}

// writeAll has writers write until the rounds are over.
func (w *effects) writeAll(ctx context.Context) {
	var writers sync.WaitGroup
	for n := range 8 {
		writers.Go(func() { w.write(ctx, n) })
	}
	writers.Wait()
}

// write writes until the rounds are over: tokens into documents that it shares
// with the other writers, and into logs.
func (w *effects) write(ctx context.Context, n int) {
	for i := 0; !w.over(); i++ {
		token := fmt.Sprintf("%d-%d", n, i)
		id := fmt.Sprintf("%d-%d", n%3, i/20)
		into := "docs/" + id
		if n%4 == 3 {
			into = "lines/" + id
		}
		once := func(ctx context.Context) error {
			key := ""
			if w.keyed {
				key = "key-" + token
			}
			if n%4 == 3 {
				_, err := w.client.Append(ctx, lines, id, []json.RawMessage{quoted(token)}, &tiering.AppendOptions{IdempotencyKey: key})
				return err
			}
			_, err := w.client.Apply(ctx, documents, id, []tiering.EditOp{
				{Op: "increment", Pointer: "/n"}, {Op: "append", Pointer: "/tokens", Value: quoted(token)},
			}, &tiering.WriteOptions{IdempotencyKey: key})
			return err
		}
		if !w.retry(ctx, token, once) {
			return
		}
		w.mu.Lock()
		if w.acks == nil {
			w.acks = map[string]map[string]bool{}
		}
		if w.acks[into] == nil {
			w.acks[into] = map[string]bool{}
		}
		w.acks[into][token] = true
		w.mu.Unlock()
	}
}

func quoted(s string) json.RawMessage { return json.RawMessage(`"` + s + `"`) }

// retry tries until a write is acknowledged.
func (w *effects) retry(ctx context.Context, token string, once func(context.Context) error) bool {
	for began := time.Now(); ; {
		w.tries.Add(1)
		err := once(ctx)
		if err == nil {
			w.done.Add(1)
			return true
		}
		if !tiering.Retryable(err) {
			w.violated("write %s was refused: %v", token, err)
			return false
		}
		if time.Since(began) > time.Minute || ctx.Err() != nil {
			w.violated("write %s was not acknowledged within a minute: %v", token, err)
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// over reports whether no round is left.
func (c *course) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rounds >= c.goal || !c.until.IsZero() && time.Now().After(c.until)
}

// twice is said of a write that was carried out twice.
const twice = " has 2 effects"

// check counts the effects of every write.
func (w *effects) check(ctx context.Context) {
	for into, tokens := range w.acks {
		var got []string
		var err error
		if ns, id := into[:5], into[5:]; ns == "docs/" {
			got, err = w.document(ctx, id)
		} else {
			got, err = w.lines(ctx, id[1:])
		}
		if err != nil {
			w.violated("%s: %v", into, err)
			continue
		}
		seen := map[string]int{}
		for _, token := range got {
			seen[token]++
		}
		for token := range tokens {
			if seen[token] != 1 {
				w.violated("%s: write %s was acknowledged and has %d effects", into, token, seen[token])
			}
			delete(seen, token)
		}
		for token, n := range seen {
			w.violated("%s: %d effects of %s, which was not acknowledged", into, n, token)
		}
	}
}

// document reads the tokens of a document, whose count has to agree.
func (w *effects) document(ctx context.Context, id string) ([]string, error) {
	d, err := w.client.Get(ctx, documents, id, &tiering.GetOptions{Strong: true})
	if err != nil {
		return nil, err
	}
	var body struct {
		N      int
		Tokens []string
	}
	if err := json.Unmarshal(d.Body, &body); err != nil {
		return nil, err
	}
	if body.N != len(body.Tokens) || d.Version != int64(body.N) {
		return nil, fmt.Errorf("counts %d, holds %d tokens, is at version %d", body.N, len(body.Tokens), d.Version)
	}
	return body.Tokens, nil
}

func (w *effects) lines(ctx context.Context, id string) ([]string, error) {
	page, err := w.client.Entries(ctx, lines, id, &tiering.EntriesOptions{Limit: 1000})
	if err != nil {
		return nil, err
	}
	var tokens []string
	for i, e := range page.Entries {
		var token string
		if err := json.Unmarshal(e.Data, &token); err != nil {
			return nil, err
		}
		if e.Seq != int64(i+1) {
			return nil, fmt.Errorf("entry %d has number %d", i, e.Seq)
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}
