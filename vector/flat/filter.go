package flat

import (
	"slices"
	"strings"
	"time"

	"github.com/tierd/tierd/vector"
)

// filter is a scope in the numbers of a room.
type filter struct {
	keys                      []int32 // slots that may be looked at; nil: all
	all                       bool    // nothing limits
	prefixes                  []string
	user, agent, app, session uint32
	kinds                     []uint32
	since, until, now         int64
	superseded                bool
}

// filter compiles a scope; some is false when nothing here is in it.
func (r *room) filter(s vector.Scope, now time.Time) (f *filter, some bool) {
	f = &filter{prefixes: s.Prefixes, since: micros(s.Since), until: micros(s.Until), now: micros(now), superseded: s.Superseded}
	for _, want := range []struct {
		text string
		to   *uint32
	}{{s.User, &f.user}, {s.Agent, &f.agent}, {s.App, &f.app}, {s.Session, &f.session}} {
		if want.text == "" {
			continue
		}
		if *want.to = r.names.number[want.text]; *want.to == 0 {
			return nil, false
		}
	}
	for _, t := range s.Types {
		if n := r.names.number[string(t)]; n != 0 {
			f.kinds = append(f.kinds, n)
		}
	}
	if len(s.Types) > 0 && len(f.kinds) == 0 {
		return nil, false
	}
	if s.Keys != nil {
		f.keys = []int32{}
		for _, k := range s.Keys {
			if slot, ok := r.slots[k.ID]; ok && k.Tenant == r.tenant && k.Namespace == r.namespace {
				f.keys = append(f.keys, slot)
			}
		}
		slices.Sort(f.keys)
		f.keys = slices.Compact(f.keys)
	}
	f.all = s.Keys == nil && len(s.Prefixes) == 0 && f.user|f.agent|f.app|f.session == 0 && f.kinds == nil && f.since == 0 && f.until == 0 && r.restless == 0
	return f, true
}

// lets reports whether a slot is in the scope, but for keys.
func (f *filter) lets(r *room, slot int32) bool {
	d := &r.facets[slot]
	switch {
	case f.all:
		return d.used
	case !d.used,
		f.user != 0 && d.user != f.user,
		f.agent != 0 && d.agent != f.agent,
		f.app != 0 && d.app != f.app,
		f.session != 0 && d.session != f.session,
		d.expires != 0 && d.expires <= f.now,
		!f.superseded && d.ends != 0 && d.ends <= f.now,
		f.since != 0 && d.until < f.since,
		f.until != 0 && d.from > f.until,
		f.kinds != nil && !slices.Contains(f.kinds, d.kind):
		return false
	}
	if len(f.prefixes) == 0 {
		return true
	}
	id := r.docs[slot].id
	return slices.ContainsFunc(f.prefixes, func(p string) bool { return strings.HasPrefix(id, p) })
}

// takes is lets with keys.
func (f *filter) takes(r *room, slot int32) bool {
	if f.keys != nil {
		if _, ok := slices.BinarySearch(f.keys, slot); !ok {
			return false
		}
	}
	return f.lets(r, slot)
}

// each calls fn for every slot in scope, until it returns false.
func (f *filter) each(r *room, fn func(slot int32) bool) {
	if f.keys != nil {
		for _, slot := range f.keys {
			if f.lets(r, slot) && !fn(slot) {
				return
			}
		}
		return
	}
	for slot := range r.facets {
		if f.lets(r, int32(slot)) && !fn(int32(slot)) {
			return
		}
	}
}
