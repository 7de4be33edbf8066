package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/tiering"
)

// run is what one append wrote: its numbers are dense.
type run struct {
	first   int64
	entries []json.RawMessage
}

// written is what a log holds.
type written struct {
	last   int64
	erases int64 // that were done before the last append
	blocks []run // of appends that are there
}

func (s *sequence) log(p place) *written {
	if s.logs[p] == nil {
		s.logs[p] = &written{}
	}
	return s.logs[p]
}

func (s *sequence) Append(rt *rapid.T) {
	p := rapid.SampledFrom(logPlaces).Draw(rt, "log")
	l := s.log(p)
	var entries []json.RawMessage
	for i := range rapid.IntRange(1, 3).Draw(rt, "entries") {
		entries = append(entries, json.RawMessage(fmt.Sprintf(`{"after":%d,"n":%d}`, l.last, i)))
	}
	o := &tiering.AppendOptions{User: s.user(p)}
	holds := true
	switch rapid.IntRange(0, 3).Draw(rt, "condition") {
	case 0:
		at := int64(0)
		if l.blocks != nil {
			at = l.last
		}
		o.ExpectSeq = &at
	case 1:
		wrong := l.last + 1
		o.ExpectSeq, holds = &wrong, false
	}
	var a *tiering.Appended
	erases := s.w.done.Load()
	err := s.call(func(c *client.Client) (err error) {
		a, err = c.Append(s.ctx, p.ns, s.id(p), entries, o)
		return err
	})
	switch {
	case !holds:
		if tiering.CodeOf(err) != tiering.CodeSeqConflict {
			s.Fatalf("%s: an append behind %d, where %d is the last: %+v, %v", unheeded, *o.ExpectSeq, l.last, a, err)
		}
		return
	case err != nil:
		s.Fatalf("%+v", err)
	case a.FirstSeq <= l.last || a.FirstSeq > l.last+1 && s.w.begun.Load() == l.erases || a.LastSeq != a.FirstSeq+int64(len(entries))-1:
		s.Fatalf("an append of %d to %s got %d to %d behind %d", len(entries), s.id(p), a.FirstSeq, a.LastSeq, l.last)
	}
	l.last, l.erases, l.blocks = a.LastSeq, erases, append(l.blocks, run{a.FirstSeq, entries})
	s.w.counts.appended.Add(1)
}

func (s *sequence) lookAtLog(p place) {
	l := s.log(p)
	var page *tiering.EntryPage
	err := s.call(func(c *client.Client) (err error) {
		page, err = c.Entries(s.ctx, p.ns, s.id(p), &tiering.EntriesOptions{Limit: 1000})
		return err
	})
	if errors.Is(err, tiering.ErrNotFound) && l.blocks == nil {
		return
	}
	if err != nil {
		s.Fatalf("log %s: %+v", s.id(p), err)
	}
	var want, got strings.Builder
	for _, b := range l.blocks {
		for i, e := range b.entries {
			fmt.Fprintf(&want, "%d %s\n", b.first+int64(i), e)
		}
	}
	for _, e := range page.Entries {
		fmt.Fprintf(&got, "%d %s\n", e.Seq, e.Data)
	}
	if got.String() != want.String() {
		s.Fatalf("log %s has\n%swant\n%s", s.id(p), &got, &want)
	}
}

// things are what memories are made of.
var things = []string{"harbour", "violin", "glacier", "pepper", "lantern", "orchard", "saddle", "compass"}

func drawText(rt *rapid.T) string {
	return strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(things), 2, 4, rapid.ID[string]).Draw(rt, "text"), " ")
}

// Remember stores a memory, or changes what it says.
func (s *sequence) Remember(rt *rapid.T) {
	id, text := s.run+"/"+rapid.SampledFrom([]string{"m", "n", "o"}).Draw(rt, "id"), drawText(rt)
	s.must(func(c *client.Client) error {
		if _, known := s.memories[id]; known {
			patch, err := json.Marshal(map[string]string{"text": text})
			if err == nil {
				_, err = c.PatchMemory(s.ctx, facts, id, patch, nil)
			}
			return err
		}
		_, errs, err := c.Remember(s.ctx, facts, []tiering.NewMemory{{ID: id, User: s.run, MemoryBody: tiering.MemoryBody{Text: text}}}, nil)
		return errors.Join(append(errs, err)...)
	})
	s.memories[id] = text
}

// remembered draws a memory that stands.
func (s *sequence) remembered(rt *rapid.T) string {
	var ids []string
	for id := range s.memories {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		rt.Skip("nothing is remembered")
	}
	slices.Sort(ids)
	return rapid.SampledFrom(ids).Draw(rt, "memory")
}

func (s *sequence) Forget(rt *rapid.T) {
	id := s.remembered(rt)
	s.must(func(c *client.Client) error {
		_, err := c.Forget(s.ctx, facts, id, nil)
		return err
	})
	delete(s.memories, id)
}

// Recall asks for what a memory says: that one is found, and nothing that does not
// stand.
func (s *sequence) Recall(rt *rapid.T) {
	id := s.remembered(rt)
	var r *tiering.Recalled
	s.must(func(c *client.Client) (err error) {
		for range 100 { // an index that is being read after a start says so
			r, err = c.Recall(s.ctx, &tiering.Recall{Namespaces: []string{facts}, User: s.run, Query: s.memories[id], K: 10})
			if err != nil || !r.Partial {
				return err
			}
			time.Sleep(100 * time.Millisecond)
		}
		return fmt.Errorf("a recall stays partial: %s", r.Reason)
	})
	found := false
	for _, m := range r.Matches {
		if text, known := s.memories[m.ID]; !known || m.Text != text {
			s.Fatalf("recalled %s as %q: it is %q", m.ID, m.Text, text)
		}
		found = found || m.ID == id
	}
	if !found {
		s.Fatalf("%s is not recalled by what it says, %q: %+v", id, s.memories[id], r.Matches)
	}
	s.w.counts.recalled.Add(1)
}

func (s *sequence) lookAtMemories() {
	var page *tiering.MemoryPage
	s.must(func(c *client.Client) (err error) {
		page, err = c.ListMemories(s.ctx, facts, &tiering.MemoryListOptions{User: s.run})
		return err
	})
	for _, m := range page.Memories {
		if s.memories[m.ID] != m.Text {
			s.Fatalf("memory %s says %q, want %q", m.ID, m.Text, s.memories[m.ID])
		}
	}
	if len(page.Memories) != len(s.memories) {
		s.Fatalf("%d memories are listed, want %d", len(page.Memories), len(s.memories))
	}
}
