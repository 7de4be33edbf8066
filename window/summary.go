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
	lines := extract(gone)
	head := fmt.Sprintf("Summary of %d earlier turns:", len(gone))
	// The newest lines say most of what is going on.
	for from := range lines {
		parts := lines[from:]
		if from > 0 {
			parts = append([]string{"…"}, parts...)
		}
		m.text = head + "\n" + strings.Join(parts, "\n")
		if o.cost([]message{m}) <= room {
			return m, true
		}
	}
	return m, false
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
