package window

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Summariser makes summaries of conversations, as package chat does. It is safe for
// concurrent use.
type Summariser interface {
	// Extend returns a summary of what before sums up, "" for nothing, and of the
	// talk that followed it.
	Extend(ctx context.Context, before, talk string) (string, error)
	// MaxInput is how long a talk may be, in bytes.
	MaxInput() int
}

// Made is a model's summary of the turns up to an entry. The zero value is none.
type Made struct {
	Text string
	To   int64
	// Reason says why it is none, or does not cover all turns.
	Reason string
}

// Older is the turns that a context leaves out, oldest first.
type Older struct{ turns []turn }

// From is the number of the first entry, 0 when there is none.
func (o Older) From() int64 {
	if len(o.turns) == 0 {
		return 0
	}
	return o.turns[0].first()
}

// To is the number of the last entry, 0 when there is none.
func (o Older) To() int64 {
	if len(o.turns) == 0 {
		return 0
	}
	return o.turns[len(o.turns)-1].last()
}

// Turns is how many there are.
func (o Older) Turns() int { return len(o.turns) }

// Behind is the turns that end behind an entry.
func (o Older) Behind(seq int64) Older {
	for i, t := range o.turns {
		if t.last() > seq {
			return Older{o.turns[i:]}
		}
	}
	return Older{}
}

// What of one message a model is shown at most, in characters.
const (
	talkText  = 2000
	talkInput = 500
)

// Talk is the oldest turns as text, without private members, of at most most bytes; to
// is the last entry that it holds. A turn that is longer by itself is cut.
func (o Older) Talk(most int) (talk string, to int64) {
	for i, t := range o.turns {
		next := transcript(t)
		if i > 0 && len(talk)+len(next) > most {
			break
		}
		talk, to = talk+next, t.last()
	}
	if len(talk) > most {
		for most > 0 && !utf8.RuneStart(talk[most]) {
			most--
		}
		talk = talk[:most]
	}
	return talk, to
}

// transcript is a turn as text, for a model that summarises it.
func transcript(t turn) string {
	var b strings.Builder
	for _, m := range t.messages {
		if m.text != "" {
			fmt.Fprintf(&b, "%s: %s\n", m.role, told([]byte(m.text), talkText))
		}
		for _, c := range m.calls {
			fmt.Fprintf(&b, "%s calls %s %s\n", m.role, c.name, told(c.input, talkInput))
		}
		for _, r := range m.results {
			fmt.Fprintf(&b, "result: %s\n", told([]byte(r.text), talkText))
		}
	}
	return b.String()
}

// told is a text as a model is shown it. One that is JSON has its private members taken
// out too: a context may be for those who wrote them, a model's server is not.
func told(s []byte, most int) string {
	if json.Valid(s) {
		s = public(s)
	}
	short, _ := shorten(string(s), most)
	return short
}
