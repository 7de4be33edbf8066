package flat

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/lexical"
)

// postings say which slots of a room hold a term. A term that none holds any
// more is forgotten.
type postings struct {
	number map[string]int32
	all    []posting
	free   []int32
	stats  lexical.Stats
	size   int64 // of all lists
}

// posting is the list of one term, by slot.
type posting struct {
	term string
	held []held
}

type held struct{ slot, freq int32 }

// occurrence is a term of a memory.
type occurrence struct{ term, freq int32 }

func newPostings() postings { return postings{number: map[string]int32{}} }

func (p *postings) add(slot int32, terms []tiering.MemoryTerm, length int) []occurrence {
	p.stats.Documents++
	p.stats.TotalLength += int64(length)
	out := make([]occurrence, 0, len(terms))
	for _, t := range terms {
		n, ok := p.number[t.Text]
		if !ok {
			term := strings.Clone(t.Text)
			if f := len(p.free); f > 0 {
				n, p.free = p.free[f-1], p.free[:f-1]
				p.all[n] = posting{term: term}
			} else {
				n = int32(len(p.all))
				p.all = append(p.all, posting{term: term})
			}
			p.number[term] = n
		}
		list := &p.all[n]
		h := held{slot, int32(t.Freq)}
		if last := len(list.held); last == 0 || list.held[last-1].slot < slot {
			list.held = append(list.held, h)
		} else {
			i, _ := slices.BinarySearchFunc(list.held, slot, bySlot)
			list.held = slices.Insert(list.held, i, h)
		}
		out = append(out, occurrence{n, h.freq})
	}
	p.size += int64(len(terms))
	return out
}

func bySlot(h held, slot int32) int { return cmp.Compare(h.slot, slot) }

func (p *postings) remove(slot int32, terms []occurrence, length int) {
	p.stats.Documents--
	p.stats.TotalLength -= int64(length)
	p.size -= int64(len(terms))
	for _, t := range terms {
		list := &p.all[t.term]
		if i, ok := slices.BinarySearchFunc(list.held, slot, bySlot); ok {
			list.held = slices.Delete(list.held, i, i+1)
		}
		if len(list.held) == 0 {
			delete(p.number, list.term)
			*list = posting{}
			p.free = append(p.free, t.term)
		}
	}
}

func (p *postings) of(term string) []held {
	n, ok := p.number[term]
	if !ok {
		return nil
	}
	return p.all[n].held
}

func (p *postings) bytes() int64 {
	const perTerm, perPosting = 120, 16 // with the occurrence in the memory
	return int64(len(p.number))*perTerm + p.size*perPosting
}

// Words implements vector.Index.
func (x *Index) Words(ctx context.Context, s vector.Scope, q lexical.Query, limit int) (hits []vector.Hit, err error) {
	if limit <= 0 || len(q.Terms) == 0 {
		return nil, ctx.Err()
	}
	err = x.search(ctx, s, func(rooms []inScope) {
		all := x.named(s)
		stats, df := counts(all)
		plan := q.Plan(stats, df, lexical.Options{})
		best := newTop(limit)
		for _, in := range rooms {
			in.score(in.filter, plan, best)
		}
		hits = best.hits()
	})
	return hits, err
}

// counts are the statistics of rooms.
func counts(rooms []*room) (stats lexical.Stats, df func(string) int64) {
	for _, r := range rooms {
		stats = stats.Add(r.words.stats)
	}
	return stats, func(term string) (n int64) {
		for _, r := range rooms {
			n += int64(len(r.words.of(term)))
		}
		return n
	}
}

// score offers every memory that has a term of the plan.
func (r *room) score(f *filter, plan *lexical.Plan, best *top) {
	terms := plan.Terms()
	lists := make([][]held, len(terms))
	for i, t := range terms {
		lists[i] = r.words.of(t)
	}
	// The hits of a slot are a chain: first holds its head, plus one.
	type link struct {
		hit  lexical.Hit
		next int32
	}
	first := make([]int32, len(r.docs))
	var chains []link
	var met []int32
	for i, list := range lists {
		for _, h := range list {
			if first[h.slot] == 0 {
				if !f.takes(r, h.slot) {
					continue
				}
				met = append(met, h.slot)
			}
			chains = append(chains, link{lexical.Hit{Term: i, Freq: int(h.freq)}, first[h.slot]})
			first[h.slot] = int32(len(chains))
		}
	}
	var hits []lexical.Hit
	for _, slot := range met {
		hits = hits[:0]
		for at := first[slot]; at != 0; at = chains[at-1].next {
			hits = append(hits, chains[at-1].hit)
		}
		if score := plan.Score(hits, r.docs[slot].length); score > 0 {
			best.offer(score, r, slot)
		}
	}
}

// Frequencies implements vector.Index.
func (x *Index) Frequencies(ctx context.Context, s vector.Scope, terms []string) (lexical.Stats, []int64, error) {
	if err := x.catchUp(ctx); err != nil {
		return lexical.Stats{}, nil, err
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	stats, df := counts(x.named(s))
	out := make([]int64, len(terms))
	for i, t := range terms {
		out[i] = df(t)
	}
	return stats, out, ctx.Err()
}

// Around implements vector.Index.
func (x *Index) Around(ctx context.Context, s vector.Scope, hits []vector.Hit) (out []vector.Adjacent, err error) {
	err = x.search(ctx, s, func(rooms []inScope) {
		for i := range hits {
			for _, in := range rooms {
				if k := hits[i].Key; k.Tenant == in.tenant && k.Namespace == in.namespace {
					if a, ok := in.around(in.filter, k); ok {
						out = append(out, a)
					}
				}
			}
		}
	})
	return out, err
}

// around finds the neighbours of a memory in its session.
func (r *room) around(f *filter, k tiering.Key) (a vector.Adjacent, ok bool) {
	slot, ok := r.slots[k.ID]
	if !ok || r.facets[slot].session == 0 {
		return a, false
	}
	line := r.sessions[r.facets[slot].session]
	at, found := slices.BinarySearchFunc(line, slot, r.inTime)
	if !found {
		return a, false
	}
	a.Of = k
	next := func(from, step int) *vector.Hit {
		for i := from; i >= 0 && i < len(line); i += step {
			if f.takes(r, line[i]) {
				h := r.hit(line[i], 0)
				return &h
			}
		}
		return nil
	}
	a.Before, a.After = next(at-1, -1), next(at+1, 1)
	return a, true
}
