package window

import (
	"bytes"
	"encoding/json"
	"strings"
)

// openAIMessage and what follows are rows in the order of their members.
type openAIMessage struct {
	Role       string       `json:"role"`
	Content    *string      `json:"content"`
	ToolCalls  []openAICall `json:"tool_calls,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitempty"`
	Name       string       `json:"name,omitempty"`
}

type openAICall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// openAI writes messages as the chat completions API takes them: a result is a
// message of its own.
func openAI(messages []message) (out []any) {
	for _, m := range messages {
		for _, r := range m.results {
			out = append(out, openAIMessage{Role: "tool", Content: &r.text, ToolCallID: r.id, Name: r.name})
		}
		if m.role == "tool" {
			continue
		}
		row := openAIMessage{Role: m.role, Content: &m.text}
		if m.text == "" && len(m.calls) > 0 {
			row.Content = nil
		}
		for _, c := range m.calls {
			oc := openAICall{ID: c.id, Type: "function"}
			oc.Function.Name, oc.Function.Arguments = c.name, string(public(c.input))
			row.ToolCalls = append(row.ToolCalls, oc)
		}
		out = append(out, row)
	}
	return out
}

type anthropicMessage struct {
	Role    string           `json:"role"`
	Content []anthropicBlock `json:"content"`
}

type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
}

// anthropic writes messages as the messages API takes them: results are the
// user's, and messages of one role that follow each other are one.
func anthropic(messages []message) (out []any) {
	var rows []anthropicMessage
	for _, m := range messages {
		role := "user"
		if m.role == "assistant" {
			role = "assistant"
		}
		var blocks []anthropicBlock
		for _, r := range m.results {
			blocks = append(blocks, anthropicBlock{Type: "tool_result", ToolUseID: r.id, Content: r.text})
		}
		if m.text != "" {
			blocks = append(blocks, anthropicBlock{Type: "text", Text: m.text})
		}
		for _, c := range m.calls {
			blocks = append(blocks, anthropicBlock{Type: "tool_use", ID: c.id, Name: c.name, Input: public(c.input)})
		}
		if n := len(rows); n > 0 && rows[n-1].Role == role {
			rows[n-1].Content = append(rows[n-1].Content, blocks...)
			continue
		}
		if len(blocks) > 0 {
			rows = append(rows, anthropicMessage{role, blocks})
		}
	}
	for _, row := range rows {
		out = append(out, row)
	}
	return out
}

// systemText is the system messages as one.
func systemText(system []message) string {
	var texts []string
	for _, m := range system {
		texts = append(texts, m.text)
	}
	return strings.Join(texts, "\n\n")
}

// encode writes a row without escapes for HTML.
func encode(row any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(row); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
