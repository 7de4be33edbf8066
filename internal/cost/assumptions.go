package cost

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// assumptions are what the estimate takes for granted, a short line each.
func (m *model) assumptions() []string {
	out := []string{m.paceWords()}
	if m.u.HotBytes < 0 {
		out = append(out, "hot could not be asked: what is written within hot_ttl is taken for it")
	} else {
		out = append(out, "hot stays as it is: whatever it holds, its keys have an end")
	}
	if m.weighed {
		out = append(out, fmt.Sprintf("warm goes on to take %.1f bytes of disk for each byte of documents in it", m.overhead))
	} else {
		out = append(out, fmt.Sprintf("warm holds too little to measure: %d bytes of disk are taken for each byte of documents", int(m.overhead)))
	}
	if m.measured {
		out = append(out, fmt.Sprintf("a cold copy goes on to take %.3g bytes for each byte of documents", m.ratio))
	} else {
		out = append(out, "nothing is in cold yet: no gain by compression is taken for granted")
	}
	out = append(out,
		"segments are counted as if changes came evenly; those that come in bursts make fewer",
		"every tier has its price on the list, whatever keeps it; traffic, reads of clients from cold and servers that run are not in it",
		"nobody deletes, erases or reads documents back from cold")
	if len(m.spaces) > 0 && m.u.Sampled == 0 && m.versions > 0 {
		out = append(out, "no index of a segment was read: the pace is shared out by the size of the namespaces")
	}
	if short := m.shortLived(); short != "" {
		out = append(out, "what retention has let go by now is not in the pace of "+short)
	}
	if names := m.named(func(p tiering.Policy) bool { return !p.Durable() }); names != "" {
		out = append(out, "ephemeral documents are in hot alone: "+names)
	}
	return out
}

func (m *model) paceWords() string {
	switch {
	case m.u.Since.IsZero():
		return "the store is empty: there is nothing to go by"
	case m.age < 1:
		return "the store is younger than a day: what it has is taken for the work of one"
	}
	return fmt.Sprintf("the pace of the last %.3g days goes on", m.days)
}

// shortLived names the namespaces that keep history for less than the pace was
// looked at.
func (m *model) shortLived() string {
	return m.named(func(p tiering.Policy) bool { return p.Durable() && inDays(p.KeepFor.Std()) < m.days && !p.KeepsAll() })
}

// named lists the namespaces whose policy is of a kind.
func (m *model) named(is func(tiering.Policy) bool) string {
	var names []string
	for _, s := range m.spaces {
		if is(s.Policy) && !slices.Contains(names, s.Namespace) {
			names = append(names, s.Namespace)
		}
	}
	const few = 5
	if len(names) > few {
		names = append(names[:few], fmt.Sprintf("%d more", len(names)-few))
	}
	return strings.Join(names, ", ")
}
