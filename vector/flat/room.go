package flat

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
)

// room holds the memories of a namespace. A memory has a slot while it is
// there; a slot that is free is given out again.
type room struct {
	place
	slots    map[string]int32 // by id
	free     []int32
	docs     []doc
	facets   []facet
	restless int // memories that may end or expire
	names    names
	words    postings
	spaces   map[string]*arena
	sessions map[uint32][]int32 // slots by time, then id
	text     int64              // bytes of ids and names, roughly
}

// doc is what a hit says of a memory, and where the rest of it lies.
type doc struct {
	id         string
	version    int64
	speaker    string
	at         time.Time
	createdAt  time.Time
	usedAt     time.Time
	importance float64
	uses       int64
	length     int
	terms      []occurrence
	rows       []row
}

// row is where a vector lies.
type row struct {
	arena *arena
	at    int32
}

// facet is what filters look at.
type facet struct {
	used                      bool
	user, agent, app, session uint32
	kind                      uint32
	from, until               int64 // when it happened
	ends, expires             int64 // 0: never
}

func newRoom(p place) *room {
	return &room{place: p, slots: map[string]int32{}, names: newNames(), words: newPostings(), spaces: map[string]*arena{}, sessions: map[uint32][]int32{}}
}

// add puts a memory into the room. None of its id is there.
func (r *room) add(it *vector.Item) {
	e := &it.Entry
	slot := int32(len(r.docs))
	if n := len(r.free); n > 0 {
		slot, r.free = r.free[n-1], r.free[:n-1]
	} else {
		r.docs, r.facets = append(r.docs, doc{}), append(r.facets, facet{})
	}
	at := e.At
	if at.IsZero() {
		at = it.CreatedAt
	}
	until := e.Until
	if until.IsZero() {
		until = at
	}
	f := facet{
		used: true, user: r.names.take(it.User), agent: r.names.take(e.Agent), app: r.names.take(e.App), session: r.names.take(e.Session),
		kind: r.names.take(string(e.Type)), from: micros(at), until: micros(until), ends: micros(e.Ends), expires: micros(it.ExpiresAt),
	}
	if f.ends != 0 || f.expires != 0 {
		r.restless++
	}
	d := doc{id: it.Key.ID, version: it.Version, speaker: e.Speaker, at: at, createdAt: it.CreatedAt, usedAt: e.UsedAt, importance: e.Importance, uses: e.Uses, length: e.Length}
	d.terms = r.words.add(slot, e.Terms, e.Length)
	for _, v := range e.Vectors {
		if len(v.Vector) == 0 {
			continue
		}
		a := r.spaces[v.Space]
		if a == nil {
			a = newArena(len(v.Vector))
			r.spaces[v.Space] = a
		}
		if a.dims == len(v.Vector) {
			d.rows = append(d.rows, row{a, a.add(slot, v.Vector)})
		}
	}
	r.slots[d.id], r.docs[slot], r.facets[slot] = slot, d, f
	r.text += int64(len(d.id) + len(d.speaker))
	if f.session != 0 {
		line := r.sessions[f.session]
		i, _ := slices.BinarySearchFunc(line, slot, r.inTime)
		r.sessions[f.session] = slices.Insert(line, i, slot)
	}
}

// inTime orders slots of a session.
func (r *room) inTime(a, b int32) int {
	if c := cmp.Compare(r.facets[a].from, r.facets[b].from); c != 0 {
		return c
	}
	return strings.Compare(r.docs[a].id, r.docs[b].id)
}

// remove takes a memory out of the room, if it is there, and clears what it
// held.
func (r *room) remove(id string) {
	slot, ok := r.slots[id]
	if !ok {
		return
	}
	d, f := &r.docs[slot], r.facets[slot]
	if f.session != 0 {
		line := r.sessions[f.session]
		if i, found := slices.BinarySearchFunc(line, slot, r.inTime); found {
			line = slices.Delete(line, i, i+1)
		}
		if r.sessions[f.session] = line; len(line) == 0 {
			delete(r.sessions, f.session)
		}
	}
	r.words.remove(slot, d.terms, d.length)
	for _, at := range d.rows {
		r.moved(at.arena, at.arena.remove(at.at), at.at)
	}
	for name, a := range r.spaces {
		if len(a.owner) == 0 {
			delete(r.spaces, name)
		}
	}
	for _, n := range []uint32{f.user, f.agent, f.app, f.session, f.kind} {
		r.names.give(n)
	}
	if f.ends != 0 || f.expires != 0 {
		r.restless--
	}
	r.text -= int64(len(d.id) + len(d.speaker))
	delete(r.slots, id)
	r.docs[slot], r.facets[slot] = doc{}, facet{}
	r.free = append(r.free, slot)
}

// moved notes that a vector of slot, if there is one, lies at another row now.
func (r *room) moved(a *arena, slot, to int32) {
	if slot < 0 {
		return
	}
	rows := r.docs[slot].rows
	for i := range rows {
		if rows[i].arena == a {
			rows[i].at = to
		}
	}
}

// hit is what a search says of a slot.
func (r *room) hit(slot int32, score float64) vector.Hit {
	d, f := &r.docs[slot], &r.facets[slot]
	return vector.Hit{
		Key: tiering.Key{Tenant: r.tenant, Namespace: r.namespace, ID: d.id}, Version: d.version, Score: score,
		Type: tiering.MemoryType(r.names.text(f.kind)), User: r.names.text(f.user), Session: r.names.text(f.session), Speaker: d.speaker,
		At: d.at, CreatedAt: d.createdAt, Importance: d.importance, Uses: d.uses, UsedAt: d.usedAt,
	}
}

// bytes is about how much memory the room takes.
func (r *room) bytes() int64 {
	const docSize, facetSize, mapEntry = 200, 56, 48
	n := int64(cap(r.docs))*docSize + int64(cap(r.facets))*facetSize + int64(len(r.slots))*mapEntry + r.text + r.words.bytes() + r.names.bytes()
	for _, a := range r.spaces {
		n += a.bytes()
	}
	return n
}

// names are strings by number, 0 for the empty one. Those that nobody has any
// more are forgotten.
type names struct {
	number map[string]uint32
	all    []name
	free   []uint32
}

type name struct {
	text string
	held int
}

func newNames() names { return names{number: map[string]uint32{}, all: make([]name, 1)} }

func (n *names) take(s string) uint32 {
	if s == "" {
		return 0
	}
	i, ok := n.number[s]
	if !ok {
		s = strings.Clone(s)
		if f := len(n.free); f > 0 {
			i, n.free = n.free[f-1], n.free[:f-1]
			n.all[i] = name{text: s}
		} else {
			i = uint32(len(n.all))
			n.all = append(n.all, name{text: s})
		}
		n.number[s] = i
	}
	n.all[i].held++
	return i
}

func (n *names) give(i uint32) {
	if i == 0 {
		return
	}
	if n.all[i].held--; n.all[i].held == 0 {
		delete(n.number, n.all[i].text)
		n.all[i] = name{}
		n.free = append(n.free, i)
	}
}

func (n *names) text(i uint32) string { return n.all[i].text }

func (n *names) bytes() (b int64) {
	for s := range n.number {
		b += int64(2*len(s)) + 72
	}
	return b
}
