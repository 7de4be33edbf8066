package window

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/tierd/tierd/tiering"
)

// lineLength is how many characters of a message an extractive summary takes.
const lineLength = 120

// summary is one message in place of turns, of at most room tokens; nil when nothing
// sensible fits.
func (o Options) summary(gone []turn, room int) ([]message, *tiering.ContextSummary) {
	const least = 24
	room = min(room, summaryTokens)
	if room < least {
		return nil, nil
	}
	older := Older{gone}
	told := &tiering.ContextSummary{Kind: tiering.SummaryExtractive, From: older.From(), To: older.To()}
	text, ok := "", false
	if o.Summarise != nil {
		made := o.Summarise(older)
		told.Reason = made.Reason
		if text, ok = o.made(made, older.Behind(made.To), room); ok {
			told.Kind, told.ModelTo = tiering.SummaryModel, min(made.To, told.To)
		}
	}
	if !ok {
		if text, ok = o.newest(fmt.Sprintf("Summary of %d earlier turns:", len(gone)), extract(gone), room); !ok {
			return nil, nil
		}
	}
	all := []message{{seq: told.From, role: "user", text: text}}
	told.Tokens = o.cost(all)
	return all, told
}

// made is a model's summary and, behind it, the newest lines of the turns that it does
// not cover yet. What is too long is cut, whatever the model was asked for.
func (o Options) made(m Made, behind Older, room int) (string, bool) {
	const head = "Summary of the conversation so far:\n"
	if m.Text == "" {
		return "", false
	}
	lines := extract(behind.turns)
	share := room
	if len(lines) > 0 {
		share -= room / 3
	}
	text, ok := o.cut(head, m.Text, share)
	if !ok || len(lines) == 0 {
		return text, ok
	}
	if longer, more := o.newest(text+"\nSince then:", lines, room); more {
		text = longer
	}
	return text, true
}

// cut shortens a text until it fits room behind its head, and reports whether
// anything of it does.
func (o Options) cut(head, s string, room int) (string, bool) {
	fits := func(s string) bool { return o.cost([]message{{text: head + s}}) <= room }
	if fits(s) {
		return head + s, true
	}
	n := sort.Search(utf8.RuneCountInString(s), func(n int) bool {
		short, _ := shorten(s, n+1)
		return !fits(short)
	})
	for ; n > 0; n-- { // a longer text may have fewer tokens
		if short, _ := shorten(s, n); fits(short) {
			return head + short, true
		}
	}
	return "", false
}

// newest is a summary of the newest lines that fit room: they say most of what is
// going on. What a line takes alone tells about how many those are, so that a long
// log is not counted again and again.
func (o Options) newest(head string, lines []string, room int) (string, bool) {
	from := len(lines)
	for left := room; from > 0; from-- {
		if left -= o.Count("\n" + lines[from-1]); left < 0 {
			break
		}
	}
	fits := func(from int) (string, bool) {
		parts := lines[from:]
		if from > 0 {
			parts = append([]string{"…"}, parts...)
		}
		s := head + "\n" + strings.Join(parts, "\n")
		return s, from < len(lines) && o.cost([]message{{text: s}}) <= room
	}
	best, ok := fits(from)
	for ; !ok && from < len(lines); best, ok = fits(from) {
		from++
	}
	for from > 0 {
		longer, more := fits(from - 1)
		if !more {
			break
		}
		best, ok, from = longer, true, from-1
	}
	return best, ok
}

// extract takes the beginning of what each side said, and the names of the tools
// that were called.
func extract(turns []turn) (lines []string) {
	for _, t := range turns {
		var tools []string
		answer := ""
		for _, m := range t.messages {
			for _, c := range m.calls {
				tools = append(tools, c.name)
			}
			switch {
			case m.role == "user" && m.text != "":
				lines = append(lines, "- user: "+firstLine(m.text))
			case m.role == "assistant" && m.text != "":
				answer = m.text
			}
		}
		if len(tools) > 0 {
			lines = append(lines, "- called "+strings.Join(tools, ", "))
		}
		if answer != "" {
			lines = append(lines, "- assistant: "+firstLine(answer))
		}
	}
	return lines
}

func firstLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	s, _ = shorten(s, lineLength)
	return s
}
