package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/tiering"
)

// Look reads one key.
func (s *sequence) Look(rt *rapid.T) {
	s.look(s.place(rt), &tiering.GetOptions{Strong: rapid.Bool().Draw(rt, "strong")})
}

func (s *sequence) look(p place, o *tiering.GetOptions) {
	s.Helper()
	d, want := s.doc(p), s.doc(p).body
	at := d.version
	if o.Version > 0 {
		at, want = o.Version, d.past[o.Version]
	}
	var got *tiering.Document
	err := s.call(func(c *client.Client) (err error) {
		got, err = c.Get(s.ctx, p.ns, s.id(p), o)
		return err
	})
	switch {
	case want == nil:
		if !errors.Is(err, tiering.ErrNotFound) {
			s.Fatalf("%s version %d has ended, and there is %+v, %v", s.id(p), at, got, err)
		}
		return
	case err != nil:
		s.Fatalf("%s version %d: %+v", s.id(p), at, err)
	case got.Version != at || !want.equal(got.Body):
		s.Fatalf("%s is %s at version %d, want %s at %d", s.id(p), got.Body, got.Version, want.bytes(), at)
	}
	if got.Tier == tiering.Cold {
		s.w.counts.fromCold.Add(1)
	}
}

// lookAtAll reads everything that the sequence knows of in every way there is.
func (s *sequence) lookAtAll() {
	live := map[string][]string{kept: {}, brief: {}}
	large := map[string][]string{kept: {}, brief: {}}
	for _, p := range documentPlaces {
		d := s.doc(p)
		s.look(p, &tiering.GetOptions{})
		for v, body := range d.past {
			if body != nil {
				s.look(p, &tiering.GetOptions{Version: v})
			}
		}
		s.lookAtHistory(p, d)
		if d.body != nil {
			live[p.ns] = append(live[p.ns], s.id(p))
		}
		if d.body["x"] >= 3 {
			large[p.ns] = append(large[p.ns], s.id(p))
		}
	}
	for ns := range live {
		s.must(func(c *client.Client) error {
			page, err := c.List(s.ctx, ns, &tiering.ListOptions{Prefix: s.run + "/"})
			return same("the list of "+ns, page, err, live[ns])
		})
		s.must(func(c *client.Client) error {
			page, err := c.Query(s.ctx, ns, &tiering.Query{Prefix: s.run + "/", Filter: json.RawMessage(`{"x":{"$gte":3}}`)})
			return same("a query of "+ns, page, err, large[ns])
		})
	}
	for _, p := range logPlaces {
		s.lookAtLog(p)
	}
	s.lookAtMemories()
}

func same(what string, page *tiering.Page, err error, want []string) error {
	if err != nil {
		return err
	}
	got := []string{}
	for _, item := range page.Items {
		got = append(got, item.ID)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		return fmt.Errorf("%s has %q, want %q", what, got, want)
	}
	return nil
}

// lookAtHistory wants every version, newest first, and no other but the record of
// an end.
func (s *sequence) lookAtHistory(p place, d *expected) {
	var h *tiering.History
	err := s.call(func(c *client.Client) (err error) {
		h, err = c.History(s.ctx, p.ns, s.id(p), &tiering.HistoryOptions{Limit: 1000})
		return err
	})
	if errors.Is(err, tiering.ErrNotFound) && len(d.past) == 0 {
		return
	}
	if err != nil {
		s.Fatalf("history of %s: %+v", s.id(p), err)
	}
	seen := 0
	for i, v := range h.Versions {
		body, known := d.past[v.Version]
		switch {
		case known && (body == nil) != v.Op.Deleting(), !known && v.Op != tiering.OpExpire:
			s.Fatalf("history of %s: version %d is %s, want %s", s.id(p), v.Version, v.Op, body.bytes())
		case i > 0 && v.Version >= h.Versions[i-1].Version:
			s.Fatalf("history of %s: version %d before %d", s.id(p), h.Versions[i-1].Version, v.Version)
		case known:
			seen++
		}
	}
	if seen != len(d.past) {
		s.Fatalf("history of %s has %d of %d versions: %+v", s.id(p), seen, len(d.past), h.Versions)
	}
}
