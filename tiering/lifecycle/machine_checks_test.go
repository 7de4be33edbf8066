package lifecycle_test

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
)

// What has to hold between any two actions, in warm and in both buckets.

// fromCold reads a version as the router does.
func (m *machine) fromCold(k tiering.Key, version int64) (cold.Record, bool) {
	m.Helper()
	locs, err := m.store.Locations(m.ctx, k)
	m.no(err)
	for _, l := range locs {
		if _, ok := l.Block(version); !ok {
			continue
		}
		rec, _, err := m.archive.Read(m.ctx, l, version)
		if errors.Is(err, tiering.ErrNotFound) {
			continue
		}
		m.no(err)
		return rec, true
	}
	return cold.Record{}, false
}

// read is a version, from wherever it is.
func (m *machine) read(k tiering.Key, version int64) (string, bool) {
	m.Helper()
	v, ok, err := m.store.Version(m.ctx, k, version)
	m.no(err)
	if ok {
		return string(v.Body), true
	}
	m.counts.fromCold.Add(1)
	rec, ok := m.fromCold(k, version)
	return string(rec.Body), ok
}

// Old reads every version that was ever put.
func (m *machine) Old(*rapid.T) {
	for _, c := range m.log {
		if c.op != tiering.OpPut {
			continue
		}
		body, ok := m.read(c.key, c.version)
		if ok && body != c.body || !ok && !c.mayGo {
			m.Fatalf("version %d of %s is %q, there: %t, want %q", c.version, c.key, body, ok, c.body)
		}
		m.counts.old.Add(1)
	}
}

// hidden looks for erased bodies in every record of both buckets.
func (m *machine) hidden() {
	m.Helper()
	m.eachRecord(func(where, _ string, r cold.Record) {
		if slices.Contains(m.erased, string(r.Body)) {
			m.Fatalf("%s holds erased %s of %s version %d", where, r.Body, r.Key, r.Version)
		}
	})
}

// eachRecord calls fn with every record of both buckets, whoever knows of it.
func (m *machine) eachRecord(fn func(where, epoch string, r cold.Record)) {
	m.Helper()
	for c, b := range m.buckets {
		for info, err := range b.List(m.ctx, cold.SegmentPrefix) {
			m.no(err)
			data, err := b.Read(m.ctx, info.Name, 0, -1)
			m.no(err)
			if cold.Occupied(data) {
				continue
			}
			s, err := cold.OpenSegment(bytes.NewReader(data), int64(len(data)))
			m.no(err)
			for r, err := range s.Records() {
				m.no(err)
				fn(info.Name+" in "+tiering.Copy(c).String(), s.Epoch(), r)
			}
		}
	}
}

// Check holds after every action.
func (m *machine) Check(*rapid.T) {
	all := m.standing()
	for _, id := range machineIDs {
		k, c := key(id), all[key(id)]
		cur, err := m.store.Load(m.ctx, k)
		m.no(err)
		h := cur.Head
		if h.Live(m.clock.Now()) != c.live(m.clock.Now()) {
			m.Fatalf("%s is %+v, want %+v", k, h, c)
		}
		if !c.live(m.clock.Now()) {
			continue
		}
		body := string(cur.Body)
		if !h.InWarm {
			body, _ = m.read(k, h.Version)
		}
		if h.Version != c.version || body != c.body || h.User != c.user || !h.ExpiresAt.Equal(c.expires) {
			m.Fatalf("%s is version %d %q of %q until %s, want %+v", k, h.Version, body, h.User, h.ExpiresAt, c)
		}
	}
}

// settled is the end of a sequence: everything archived, both buckets sound.
func (m *machine) settled() {
	m.Flush(m.T)
	m.Old(m.T)
	m.clock.advance(2 * time.Hour) // an order that only one bucket holds is not on its way any more
	m.Orders(m.T)
	r, err := m.engine.Verify(m.ctx, lifecycle.VerifyOptions{Depth: lifecycle.DepthRestore})
	m.no(err)
	if len(r.Faults) > 0 {
		m.Fatalf("in the end: %+v", r.Faults)
	}
	m.hidden()
	m.Rebuild(m.T)
	m.Check(m.T)
	m.Old(m.T)
}
