package window

import (
	"strings"
	"unicode/utf8"
)

// turn is what a user said and everything up to the next time. The first one of a
// log may begin otherwise.
type turn struct{ messages []message }

// first and last are the numbers of a turn's entries.
func (t turn) first() int64 { return t.messages[0].seq }
func (t turn) last() int64  { return t.messages[len(t.messages)-1].seq }

// turnsOf parts a conversation into its system messages and its turns. A tool's
// result whose call is not before it, and a call that has no result although the
// conversation went on, are left out: a model takes neither alone. mute is how many
// events of callers say nothing to a model: they are no message, or an empty one of
// its own.
func turnsOf(events []Event) (system []message, turns []turn, mute int) {
	var talk []message
	for _, e := range events {
		m, ok := parse(e)
		switch {
		case !ok && own(e):
		case !ok || m.role == "assistant" && m.text == "" && len(m.calls) == 0 && len(m.results) == 0:
			mute++
		case m.role == "system":
			system = append(system, m)
		default:
			talk = append(talk, m)
		}
	}
	for _, m := range paired(talk) {
		if m.role == "user" || len(turns) == 0 {
			turns = append(turns, turn{})
		}
		t := &turns[len(turns)-1]
		t.messages = append(t.messages, m)
	}
	return system, turns, mute
}

// paired leaves out calls and results that have no counterpart. Calls of the last
// message wait for their results still.
func paired(talk []message) (out []message) {
	answered := map[string]bool{}
	for _, m := range talk {
		for _, r := range m.results {
			answered[r.id] = true
		}
	}
	called := map[string]bool{}
	for i, m := range talk {
		waits := i == len(talk)-1
		var calls []call
		for _, c := range m.calls {
			if answered[c.id] || waits {
				calls = append(calls, c)
				called[c.id] = true
			}
		}
		var results []result
		for _, r := range m.results {
			if called[r.id] {
				results = append(results, r)
			}
		}
		hollow := m.text == "" && len(calls) == 0 && len(results) == 0
		if hollow && (len(m.calls) > 0 || len(m.results) > 0) {
			continue
		}
		m.calls, m.results = calls, results
		out = append(out, m)
	}
	return out
}

// shortened is a turn whose texts are cut to most characters each. Calls stay
// whole: half an argument is none.
func (t turn) shortened(most int) (short turn, cut bool) {
	short.messages = make([]message, len(t.messages))
	for i, m := range t.messages {
		m.text, m.cut = shorten(m.text, most)
		results := make([]result, len(m.results))
		for j, r := range m.results {
			var c bool
			r.text, c = shorten(r.text, most)
			m.cut = m.cut || c
			results[j] = r
		}
		m.results = results
		cut = cut || m.cut
		short.messages[i] = m
	}
	return short, cut
}

// shorten cuts a text to most characters, with a mark where it was cut.
func shorten(s string, most int) (string, bool) {
	if utf8.RuneCountInString(s) <= most {
		return s, false
	}
	n := 0
	for i := range s {
		if n == most {
			return strings.TrimRight(s[:i], " \n") + "…", true
		}
		n++
	}
	return s, false
}
