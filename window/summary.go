package window

import (
	"fmt"
	"strings"
)

// lineLength is how many characters of a message an extractive summary takes.
const lineLength = 120

// summary is one message in place of turns, of at most room tokens; ok is false
// when nothing sensible fits.
func (o Options) summary(gone []turn, room int) (m message, ok bool) {
	const least = 24
	room = min(room, summaryTokens)
	if room < least {
		return m, false
	}
	m = message{seq: gone[0].first(), role: "user"}
	if o.Summarise != nil {
		if m.text = o.Summarise(transcript(gone), room); m.text != "" {
			m.text = "Summary of the conversation so far:\n" + m.text
			if o.cost([]message{m}) <= room {
				return m, true
			}
		}
	}
	m.text, ok = o.newest(fmt.Sprintf("Summary of %d earlier turns:", len(gone)), extract(gone), room)
	return m, ok
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

// transcript is turns as text, for a model that summarises them.
func transcript(turns []turn) string {
	var b strings.Builder
	for _, t := range turns {
		for _, m := range t.messages {
			if m.text != "" {
				fmt.Fprintf(&b, "%s: %s\n", m.role, m.text)
			}
			for _, c := range m.calls {
				fmt.Fprintf(&b, "%s calls %s %s\n", m.role, c.name, c.input)
			}
			for _, r := range m.results {
				fmt.Fprintf(&b, "result: %s\n", r.text)
			}
		}
	}
	return b.String()
}
