package window

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/tierd/tierd/tiering"
)

// The defaults of a context.
const (
	DefaultKeepTurns = 5
	DefaultShorten   = 500 // characters
	// summariseBeyond is how many of the newest turns are not summarised while the
	// budget allows it.
	summariseBeyond = 10
	// summaryTokens is what a summary may take at most.
	summaryTokens = 400
)

// Shape is how messages are written.
type Shape string

// The shapes.
const (
	OpenAI    Shape = "openai"
	Anthropic Shape = "anthropic"
)

// Options shape a context. Budget and Count are required; zero values of the
// others are the defaults.
type Options struct {
	Budget    int // tokens
	KeepTurns int
	Shorten   int
	Shape     Shape
	// Count counts the tokens of a text.
	Count func(string) int
	// Skipped are runs of entries that a resume has gone back over.
	Skipped []tiering.Omitted
	// Unread are runs of entries that are not among the events, because the log is
	// too long.
	Unread []tiering.Omitted
	// Recalled are memories to weave in, best first; nil: none were asked for.
	Recalled *tiering.Recalled
	// Summarise returns what a model made of the turns that are left out; nil: no
	// model is asked, and summaries are extractive.
	Summarise func(Older) Made
}

// Fit returns what of events, which are in order, fits the budget: the system
// messages and the newest KeepTurns turns whole, turns before them with their
// texts shortened, and a summary of what is older. A call of a tool is never
// without its result. A budget that what has to stay does not fit is invalid
// (422).
func Fit(events []Event, o Options) (*tiering.SessionContext, error) {
	if o.KeepTurns == 0 {
		o.KeepTurns = DefaultKeepTurns
	}
	if o.Shorten == 0 {
		o.Shorten = DefaultShorten
	}
	out := &tiering.SessionContext{Omitted: []tiering.Omitted{}}
	if n := len(events); n > 0 {
		out.LastSeq = events[n-1].Seq
	}
	system, turns, mute := turnsOf(without(events, o.Skipped))
	out.NotMessages = mute
	keep := max(len(turns)-o.KeepTurns, 0)
	kept := turns[keep:]

	used := o.cost(system)
	for _, t := range kept {
		used += o.cost(t.messages)
	}
	if used > o.Budget {
		return nil, tiering.Unprocessablef("/budget", "the system message and the newest %d turns take %d tokens, the budget is %d: raise it, or lower keep_turns", len(kept), used, o.Budget)
	}
	memories, recalled := o.recall(o.Budget - used)
	out.Recalled = recalled
	used += o.cost(memories)
	shorts, gone, omitted := o.middle(turns[:keep], o.Budget-used)
	for _, t := range shorts {
		used += o.cost(t.messages)
	}
	var summary []message
	if len(gone) > 0 {
		how := "dropped"
		if summary, out.Summary = o.summary(gone, o.Budget-used); summary != nil {
			how = "summarised"
		}
		out.Omitted = o.around(tiering.Omitted{From: gone[0].first(), To: gone[len(gone)-1].last(), How: how})
	}
	out.Omitted = append(out.Omitted, slices.Concat(omitted, o.Unread, o.Skipped)...)
	slices.SortStableFunc(out.Omitted, func(a, b tiering.Omitted) int { return cmp.Compare(a.From, b.From) })

	talk := slices.Concat(memories, summary)
	for _, t := range append(shorts, kept...) {
		talk = append(talk, t.messages...)
	}
	out.Tokens = used + o.cost(summary)
	return out, o.write(out, system, talk)
}

// middle shortens the newest of turns that fit room, at most so many that not
// more than summariseBeyond turns stand in all, and leaves the older ones gone.
// Where some are, a part of the room is kept for their summary.
func (o Options) middle(turns []turn, room int) (shorts, gone []turn, omitted []tiering.Omitted) {
	most := max(summariseBeyond-o.KeepTurns, 0)
	at, reserve := len(turns), min(summaryTokens, room/3)
	for at > 0 && len(turns)-at < most {
		short, cut := turns[at-1].shortened(o.Shorten)
		cost, spare := o.cost(short.messages), reserve
		if at == 1 {
			spare = 0 // the oldest one: nothing is left to summarise
		}
		if cost > room-spare {
			break
		}
		room -= cost
		at--
		shorts = append([]turn{short}, shorts...)
		if cut {
			omitted = append([]tiering.Omitted{{From: short.first(), To: short.last(), How: "shortened"}}, omitted...)
		}
	}
	return shorts, turns[:at], omitted
}

// around is a run of entries without those that were not read: these are told by
// themselves.
func (o Options) around(run tiering.Omitted) (out []tiering.Omitted) {
	for _, u := range o.Unread {
		if u.From > run.To || u.To < run.From {
			continue
		}
		if u.From > run.From {
			out = append(out, tiering.Omitted{From: run.From, To: u.From - 1, How: run.How})
		}
		run.From = u.To + 1
	}
	if run.From <= run.To {
		out = append(out, run)
	}
	return out
}

// without leaves out what lies in the runs.
func without(events []Event, runs []tiering.Omitted) []Event {
	if len(runs) == 0 {
		return events
	}
	var out []Event
	for _, e := range events {
		inside := false
		for _, r := range runs {
			inside = inside || e.Seq >= r.From && e.Seq <= r.To
		}
		if !inside {
			out = append(out, e)
		}
	}
	return out
}

// cost is the tokens of messages: those of their texts, names and arguments, and
// what a chat template puts around a message and a call
// (https://github.com/openai/openai-cookbook, "How to count tokens").
func (o Options) cost(messages []message) (n int) {
	const around, aroundCall = 4, 8
	for _, m := range messages {
		n += around + o.Count(m.text)
		for _, c := range m.calls {
			n += aroundCall + o.Count(c.name) + o.Count(string(c.input))
		}
		for _, r := range m.results {
			n += aroundCall + o.Count(r.text)
		}
	}
	return n
}

// write puts the messages into the context, in its shape.
func (o Options) write(out *tiering.SessionContext, system, talk []message) error {
	out.Messages = []json.RawMessage{}
	var rows []any
	switch o.Shape {
	case "", OpenAI:
		rows = openAI(append(system, talk...))
	case Anthropic:
		out.System = systemText(system)
		rows = anthropic(talk)
	default:
		return tiering.Invalidf("shape %q: use openai or anthropic", o.Shape)
	}
	for _, row := range rows {
		b, err := encode(row)
		if err != nil {
			return tiering.Invalidf("a message cannot be written: %v", err)
		}
		out.Messages = append(out.Messages, b)
	}
	return nil
}
