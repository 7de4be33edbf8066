// Package window fits the events of a session into a model's context window.
// Its functions are pure: the same events and options give the same context.
package window

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// Event is one entry of a session's log.
type Event struct {
	Seq  int64
	Data json.RawMessage
}

// message is an event that is one of a conversation, in no shape of its own.
type message struct {
	seq     int64
	role    string // system, user, assistant or tool
	text    string
	calls   []call
	results []result
	cut     bool // its text was shortened
}

// call is a request to run a tool; result is what a tool gave.
type call struct {
	id, name string
	input    json.RawMessage
}

type result struct{ id, name, text string }

// own reports whether an event is one of tierd's own.
func own(e Event) bool {
	var typed struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(e.Data, &typed) == nil && strings.HasPrefix(typed.Type, tiering.SystemEvent)
}

// wire is a message as OpenAI or Anthropic write it.
type wire struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// block is a part of a message's content.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// parse reads an event in either shape; ok is false for one that is no message.
// Members whose names begin with _ are private: they are not read.
func parse(e Event) (m message, ok bool) {
	var w wire
	if json.Unmarshal(e.Data, &w) != nil {
		return m, false
	}
	m = message{seq: e.Seq, role: w.Role}
	switch w.Role {
	case "system", "user", "assistant", "tool":
	case "developer":
		m.role = "system"
	case "function":
		m.role = "tool"
	default:
		return m, false
	}
	m.content(w.Content)
	for _, c := range w.ToolCalls {
		m.calls = append(m.calls, call{c.ID, c.Function.Name, jsonOr(c.Function.Arguments)})
	}
	if m.role == "tool" {
		m.results = append(m.results, result{w.ToolCallID, w.Name, m.text})
		m.text = ""
	}
	if m.role == "user" && len(m.results) > 0 && m.text == "" {
		m.role = "tool" // Anthropic's results come in a user's message
	}
	return m, true
}

// jsonOr is arguments as JSON: a string where they are none.
func jsonOr(arguments string) json.RawMessage {
	if json.Valid([]byte(arguments)) {
		return json.RawMessage(arguments)
	}
	b, _ := json.Marshal(arguments) // a string can always be written
	return b
}

// content reads a string or blocks into m.
func (m *message) content(raw json.RawMessage) {
	var blocks []block
	if json.Unmarshal(raw, &blocks) != nil {
		m.text = text(raw)
		return
	}
	var texts []string
	for _, b := range blocks {
		switch b.Type {
		case "text", "input_text", "output_text":
			texts = append(texts, b.Text)
		case "tool_use":
			m.calls = append(m.calls, call{b.ID, b.Name, b.Input})
		case "tool_result":
			m.results = append(m.results, result{id: b.ToolUseID, text: contentText(b.Content)})
		default:
			texts = append(texts, "["+b.Type+"]") // an image, say: it has no words
		}
	}
	m.text = strings.Join(texts, "\n")
}

// contentText is the text of a string or of blocks.
func contentText(raw json.RawMessage) string {
	var m message
	m.content(raw)
	return m.text
}

// text is a JSON string, "" for null, and other values without their private
// members.
func text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(public(raw))
}

// public returns a JSON value without the members whose names begin with _, at
// any depth.
func public(raw json.RawMessage) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' || !bytes.Contains(raw, []byte(`"_`)) {
		return raw
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return raw
	}
	out, err := json.Marshal(withoutPrivate(v))
	if err != nil {
		return raw
	}
	return out
}

func withoutPrivate(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			if strings.HasPrefix(name, "_") {
				delete(v, name)
				continue
			}
			v[name] = withoutPrivate(inner)
		}
	case []any:
		for i := range v {
			v[i] = withoutPrivate(v[i])
		}
	}
	return v
}
