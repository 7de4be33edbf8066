package flat

import (
	"slices"
	"strings"

	"github.com/tierd/tierd/vector"
)

// top keeps the best of what it is offered; of equal scores the lower keys.
type top struct {
	limit int
	held  []candidate // a heap, the worst first
}

type candidate struct {
	score float64
	room  *room
	slot  int32
}

func newTop(limit int) *top { return &top{limit: limit, held: make([]candidate, 0, min(limit, 1024))} }

func (c *candidate) id() string { return c.room.docs[c.slot].id }

// before reports whether c is better than d.
func (c candidate) before(d candidate) bool {
	if c.score != d.score {
		return c.score > d.score
	}
	if n := strings.Compare(c.room.namespace, d.room.namespace); n != 0 {
		return n < 0
	}
	return c.id() < d.id()
}

// offer takes a candidate in if it is among the best so far.
func (t *top) offer(score float64, r *room, slot int32) {
	if len(t.held) == t.limit && score < t.held[0].score {
		return
	}
	c := candidate{score, r, slot}
	if len(t.held) < t.limit {
		t.held = append(t.held, c)
		for i := len(t.held) - 1; i > 0; {
			up := (i - 1) / 2
			if t.held[i].before(t.held[up]) {
				return
			}
			t.held[i], t.held[up] = t.held[up], t.held[i]
			i = up
		}
		return
	}
	if c.before(t.held[0]) {
		t.held[0] = c
		t.sink()
	}
}

// sink lets the first of the heap down to its place.
func (t *top) sink() {
	for i := 0; ; {
		worst := i
		for _, below := range []int{2*i + 1, 2*i + 2} {
			if below < len(t.held) && t.held[worst].before(t.held[below]) {
				worst = below
			}
		}
		if worst == i {
			return
		}
		t.held[i], t.held[worst] = t.held[worst], t.held[i]
		i = worst
	}
}

// hits are the best, best first. The rooms must not have changed since.
func (t *top) hits() []vector.Hit {
	slices.SortFunc(t.held, func(a, b candidate) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	out := make([]vector.Hit, len(t.held))
	for i, c := range t.held {
		out[i] = c.room.hit(c.slot, c.score)
	}
	return out
}
