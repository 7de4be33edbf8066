package lifecycle

import (
	"context"
	neturl "net/url"
	"sync"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/warm"
)

// Embedders knows whose vectors a store holds. The store says it, not the
// configuration of one daemon: two daemons that are configured otherwise search
// the same vectors, and a change of the model is a migration. It is safe for
// concurrent use.
type Embedders struct {
	store warm.Memories
	own   string // the URL that this daemon is configured with
	open  func(url string) (vector.Embedder, error)

	mu     sync.Mutex
	plan   warm.Embedding
	read   time.Time
	opened map[string]opened
}

// opened is what opening a URL gave.
type opened struct {
	embedder vector.Embedder
	err      error
	at       time.Time
}

// planAge is how old the plan may be; reopenAfter is when an embedder that could
// not be opened is tried again.
const (
	planAge     = time.Second
	reopenAfter = 30 * time.Second
)

// NewEmbedders returns the embedders of a store, for a daemon that is
// configured with the embedder own. A store without one takes it.
func NewEmbedders(ctx context.Context, store warm.Memories, own string, open func(url string) (vector.Embedder, error)) (*Embedders, error) {
	e := &Embedders{store: store, own: own, open: open, opened: map[string]opened{}}
	if _, err := e.Open(own); err != nil {
		return nil, err
	}
	plan, err := store.Embedding(ctx)
	if err == nil && plan.Active == "" {
		if _, err = store.SetEmbedding(ctx, plan, warm.Embedding{Active: own, Target: plan.Target}); err == nil {
			plan, err = store.Embedding(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	e.plan, e.read = plan, time.Now()
	return e, nil
}

// Own is the URL that this daemon is configured with.
func (e *Embedders) Own() string { return e.own }

// Plan returns the URLs that the store names, at most a second old. Where warm
// does not answer the last ones known stay in force.
func (e *Embedders) Plan(ctx context.Context) warm.Embedding {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.read) < planAge {
		return e.plan
	}
	if plan, err := e.store.Embedding(ctx); err == nil && plan.Active != "" {
		e.plan = plan
	}
	e.read = time.Now()
	return e.plan
}

// Searched returns the embedder whose vectors recall searches by text.
func (e *Embedders) Searched(ctx context.Context) (vector.Embedder, error) {
	return e.Open(e.Plan(ctx).Active)
}

// Current is Searched for whoever makes vectors of texts as they are written:
// nil where this daemon cannot, and the index worker has to.
func (e *Embedders) Current() vector.Embedder {
	ctx, cancel := context.WithTimeout(context.Background(), planAge)
	defer cancel()
	got, err := e.Searched(ctx)
	if err != nil {
		return nil
	}
	return got
}

// Migrate makes url the embedder that is to take over. The one that is searched
// now stays until every memory has a vector of the new one; to name that one
// ends a migration that is under way. Which variable of the environment goes to a
// server only the daemon's own configuration may say: whoever may call this could
// have any of them sent anywhere.
func (e *Embedders) Migrate(ctx context.Context, url string) error {
	if u, err := neturl.Parse(url); err == nil && u.Query().Has("api_key_env") && url != e.own {
		return tiering.Unprocessablef("/embedder", "api_key_env is for the daemon's own --embed: put the key into TIERD_EMBED_API_KEY, or start the daemons with this URL")
	}
	if _, err := e.Open(url); err != nil {
		return err
	}
	for {
		plan, err := e.store.Embedding(ctx)
		if err != nil {
			return tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
		}
		next := warm.Embedding{Active: plan.Active, Target: url}
		if url == plan.Active {
			next.Target = ""
		}
		done, err := e.store.SetEmbedding(ctx, plan, next)
		if err != nil {
			return tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
		}
		if done {
			e.forget()
			return nil
		}
	}
}

// takeOver makes the target of plan the one that is searched, if the plan
// stands.
func (e *Embedders) takeOver(ctx context.Context, plan warm.Embedding) error {
	_, err := e.store.SetEmbedding(ctx, plan, warm.Embedding{Active: plan.Target})
	e.forget()
	return err
}

func (e *Embedders) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.read = time.Time{}
}

// Open returns the embedder of a URL, opened once.
func (e *Embedders) Open(url string) (vector.Embedder, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	o, ok := e.opened[url]
	if !ok || o.err != nil && time.Since(o.at) > reopenAfter {
		o = opened{at: time.Now()}
		o.embedder, o.err = e.open(url)
		e.opened[url] = o
	}
	return o.embedder, o.err
}
