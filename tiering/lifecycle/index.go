package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/entry"
	"github.com/tierd/tierd/vector/text"
	"github.com/tierd/tierd/warm"
)

// Memories is what the index worker works with. The zero value is none.
type Memories struct {
	Store     warm.Memories
	Index     vector.Index
	Entries   *entry.Maker
	Embedders *Embedders
}

// How the index worker goes about it.
const (
	indexPage     = 256              // memories looked at in one statement
	embedTries    = 8                // after which a text counts as one that cannot be embedded
	indexIdle     = 2 * time.Second  // how long a step waits for changes
	walkEvery     = 10 * time.Minute // a walk finds what the feed did not tell
	indexReader   = "index"
	indexFeedPage = 500
	fillWalks     = 10
	tellEvery     = 30 * time.Second
)

// indexer is what the worker knows between two steps.
type indexer struct {
	told   time.Time // when the index was last reported
	walked time.Time // when all memories were last looked through
	plan   warm.Embedding
}

// index gives memories what their entry lacks: the whole of it after a rebuild
// or under a new analysis of texts, and vectors of embedders that are asked over
// a network. One that was just written is found through the feed; now and then,
// and when an embedder changes, all are looked through.
func (e *Engine) index(ctx context.Context, l warm.Lease) (time.Duration, error) {
	if e.Memories.Store == nil {
		return time.Hour, nil
	}
	return 0, errors.Join(e.indexMemories(ctx, l), e.maintainIndex(ctx, l), e.tellIndex(ctx))
}

// tellIndex reports what the index holds, now and then.
func (e *Engine) tellIndex(ctx context.Context) error {
	if time.Since(e.indexer.told) < tellEvery {
		return nil
	}
	e.indexer.told = time.Now()
	stats, err := e.Memories.Index.Stats(ctx)
	if err != nil {
		return err
	}
	spaces, err := e.Memories.Store.Spaces(ctx)
	if err != nil {
		return err
	}
	pending := int64(0)
	if _, space, err := e.embedderOf(ctx, e.Memories.Embedders.Plan(ctx).Active); err == nil && space != "" {
		pending = stats.Memories
		for _, s := range spaces {
			if s.Space == space {
				pending = max(stats.Memories-s.Count, 0)
			}
		}
	}
	e.Recorder.Indexed(stats, pending)
	return nil
}

func (e *Engine) indexMemories(ctx context.Context, l warm.Lease) error {
	plan := e.Memories.Embedders.Plan(ctx)
	if plan != e.indexer.plan || time.Since(e.indexer.walked) > walkEvery {
		if err := e.walkMemories(ctx, l, plan); err != nil {
			return err
		}
		e.indexer.plan, e.indexer.walked = plan, time.Now()
	}
	return e.followMemories(ctx, l, plan)
}

// maintainIndex does what the index has to do for itself.
func (e *Engine) maintainIndex(ctx context.Context, l warm.Lease) error {
	for {
		more, err := e.Memories.Index.Maintain(ctx)
		if err != nil || !more {
			return err
		}
		if err := e.stillHeld(ctx, l); err != nil {
			return err
		}
	}
}

// walkMemories looks through all memories, and lets the embedder that is to take
// over do so once nothing lacks its vector.
func (e *Engine) walkMemories(ctx context.Context, l warm.Lease, plan warm.Embedding) error {
	if _, err := e.walkPending(ctx, l, func(ctx context.Context, after tiering.Key) ([]warm.PendingMemory, error) {
		return e.Memories.Store.PendingMemories(ctx, text.Version, "", after, indexPage)
	}, e.enter); err != nil {
		return err
	}
	if err := e.fillSpace(ctx, l, plan.Active); err != nil || plan.Target == "" {
		return err
	}
	if err := e.fillSpace(ctx, l, plan.Target); err != nil {
		return err
	}
	e.Logger.Info("another embedder takes over", "from", plan.Active, "to", plan.Target)
	return e.Memories.Embedders.takeOver(ctx, plan)
}

// fillSpace gives every memory a vector of an embedder. What is written during a
// walk may be missed by it: the last one finds next to nothing.
func (e *Engine) fillSpace(ctx context.Context, l warm.Lease, url string) error {
	embedder, space, err := e.embedderOf(ctx, url)
	if err != nil || space == "" {
		return err
	}
	for range fillWalks {
		done, err := e.walkPending(ctx, l, func(ctx context.Context, after tiering.Key) ([]warm.PendingMemory, error) {
			return e.Memories.Store.PendingMemories(ctx, 0, space, after, indexPage)
		}, func(ctx context.Context, page []warm.PendingMemory) (int, error) { return e.embed(ctx, embedder, page) })
		if err != nil || done == 0 {
			return err
		}
	}
	return nil
}

// embedderOf opens an embedder and asks for its space; "" where it makes none.
func (e *Engine) embedderOf(ctx context.Context, url string) (vector.Embedder, string, error) {
	embedder, err := e.Memories.Embedders.Open(url)
	if err != nil || embedder == nil || embedder.Weight() == 0 {
		return nil, "", err
	}
	space := embedder.Space()
	if p, ok := embedder.(vector.Prober); ok && space.ID() == "" {
		if space, err = p.Probe(ctx); err != nil {
			return nil, "", err
		}
	}
	return embedder, space.ID(), nil
}

// walkPending runs step over pages of memories that lack something, and counts
// those that it helped.
func (e *Engine) walkPending(ctx context.Context, l warm.Lease, next func(context.Context, tiering.Key) ([]warm.PendingMemory, error), step func(context.Context, []warm.PendingMemory) (int, error)) (done int, err error) {
	var after tiering.Key
	for {
		page, err := next(ctx, after)
		if err != nil || len(page) == 0 {
			return done, err
		}
		after = page[len(page)-1].Head.Key
		n, err := step(ctx, page)
		if err != nil {
			return done, err
		}
		done += n
		if err := e.stillHeld(ctx, l); err != nil {
			return done, err
		}
	}
}

// enter makes the entries of memories that have none.
func (e *Engine) enter(ctx context.Context, page []warm.PendingMemory) (done int, err error) {
	for _, p := range page {
		body, err := e.memoryBody(ctx, p)
		if err != nil {
			return done, err
		}
		if body == nil {
			continue
		}
		made, err := e.Memories.Entries.Make(ctx, body)
		if errors.Is(err, tiering.ErrInvalid) {
			e.Logger.Warn("a document of a memory namespace is no memory: recall does not find it", "key", p.Head.Key, "err", err)
			continue
		}
		if err != nil {
			return done, err
		}
		set, err := e.Memories.Store.SetMemory(ctx, p.Head.Key, *made)
		if err != nil {
			return done, err
		}
		if set {
			done++
		}
	}
	return done, nil
}

// memoryBody is the document of a memory, from cold where it lies there alone;
// nil where it is gone.
func (e *Engine) memoryBody(ctx context.Context, p warm.PendingMemory) ([]byte, error) {
	if p.Body != nil {
		return p.Body, nil
	}
	body, ok, err := e.fromCold(ctx, p.Head.Key, p.Head.Version)
	if err != nil || !ok || tiering.DigestOf(body) != p.Head.Digest {
		return nil, err
	}
	return body, nil
}

// embed gives a page of memories their vectors, and counts them. A text that the
// embedder refuses is tried alone, and given up after some tries: the memory is
// found by its words.
func (e *Engine) embed(ctx context.Context, embedder vector.Embedder, page []warm.PendingMemory) (done int, err error) {
	var texts []string
	var of []warm.PendingMemory
	for _, p := range page {
		if p.Attempts >= embedTries {
			continue
		}
		body, err := e.memoryBody(ctx, p)
		if err != nil {
			return 0, err
		}
		if body == nil {
			continue
		}
		if m, err := tiering.ParseMemory(body); err == nil {
			texts, of = append(texts, entry.Text(m)), append(of, p)
		}
	}
	if len(texts) == 0 {
		return 0, nil
	}
	vectors, err := entry.Embed(ctx, embedder, texts)
	switch {
	case err == nil:
		return e.addVectors(ctx, of, vectors)
	case tiering.Retryable(err) || ctx.Err() != nil:
		return 0, err
	case len(of) == 1:
		e.Logger.Warn("a text cannot be embedded", "key", of[0].Head.Key, "tries", of[0].Attempts+1, "err", err)
		return 0, e.Memories.Store.NoteFailure(ctx, of[0].Head.Key, of[0].Head.Digest, of[0].Attempts+1 >= embedTries)
	}
	for _, p := range of {
		n, err := e.embed(ctx, embedder, []warm.PendingMemory{p})
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// addVectors stores the vectors of a page.
func (e *Engine) addVectors(ctx context.Context, of []warm.PendingMemory, vectors []tiering.MemoryVector) (done int, err error) {
	for i, v := range vectors {
		key, digest := of[i].Head.Key, of[i].Head.Digest
		if v.Vector == nil { // the text means nothing there, and never will
			if err := e.Memories.Store.NoteFailure(ctx, key, digest, false); err != nil {
				return done, err
			}
			continue
		}
		added, err := e.Memories.Store.AddVector(ctx, key, digest, v, tiering.IndexIndexed)
		if err != nil {
			return done, err
		}
		if added {
			done++
		}
	}
	return done, nil
}

// followMemories embeds what was written since, where vectors do not commit with
// their texts, and waits a moment for more.
func (e *Engine) followMemories(ctx context.Context, l warm.Lease, plan warm.Embedding) error {
	wait, cancel := context.WithTimeout(ctx, indexIdle)
	defer cancel()
	embedder, space, err := e.embedderOf(ctx, plan.Active)
	if err != nil {
		return err
	}
	pos, err := e.Warm.Position(ctx, indexReader)
	if err != nil {
		return err
	}
	if _, local := embedder.(vector.LocalEmbedder); local || space == "" {
		<-wait.Done()
		if pos == 0 {
			return nil
		}
		return e.skipFeed(ctx) // an embedder before it was followed: the feed is not kept for it
	}
	if err := e.Warm.WaitFeed(wait, pos); err != nil {
		if ctx.Err() == nil && wait.Err() != nil {
			return nil
		}
		return err
	}
	entries, err := e.Warm.ReadFeed(ctx, pos, indexFeedPage)
	if errors.Is(err, tiering.ErrGone) {
		e.indexer.walked = time.Time{}
		return e.skipFeed(ctx)
	}
	if err != nil || len(entries) == 0 {
		return err
	}
	if err := e.embedChanged(ctx, embedder, space, entries); err != nil {
		return err
	}
	if err := e.stillHeld(ctx, l); err != nil {
		return err
	}
	return e.Warm.SetPosition(ctx, indexReader, entries[len(entries)-1].Pos)
}

// skipFeed moves the worker to the end of the feed.
func (e *Engine) skipFeed(ctx context.Context) error {
	_, last, err := e.Warm.FeedBounds(ctx)
	if err != nil {
		return err
	}
	return e.Warm.SetPosition(ctx, indexReader, last)
}

// embedChanged embeds the memories among changes.
func (e *Engine) embedChanged(ctx context.Context, embedder vector.Embedder, space string, entries []warm.FeedEntry) error {
	seen := map[tiering.Key]bool{}
	var keys []tiering.Key
	for _, entry := range entries {
		for _, c := range entry.Changes {
			if c.Op == tiering.OpPut && !c.Key.Reserved() && !seen[c.Key] {
				seen[c.Key] = true
				keys = append(keys, c.Key)
			}
		}
	}
	found, err := e.Memories.Store.MemoriesOf(ctx, keys)
	if err != nil {
		return err
	}
	var page []warm.PendingMemory
	for _, m := range found {
		if m.Entry.Status != tiering.IndexPending || hasSpace(m.Entry, space) {
			continue
		}
		cur, err := e.Warm.Load(ctx, m.Key)
		if err != nil {
			return err
		}
		page = append(page, warm.PendingMemory{Head: cur.Head, Body: cur.Body})
	}
	_, err = e.embed(ctx, embedder, page)
	return err
}

func hasSpace(m tiering.MemoryEntry, space string) bool {
	for _, v := range m.Vectors {
		if v.Space == space {
			return true
		}
	}
	return false
}
