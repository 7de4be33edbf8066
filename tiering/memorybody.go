package tiering

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// The bounds of a memory.
const (
	MaxMemoryText  = 256 << 10 // bytes
	MaxMemoryLinks = 1000
	MaxDimensions  = 16_000 // of a caller's own vector
	maxMemoryName  = 256    // bytes of agent, app, session, relation, a model's name
)

// ParseMemory reads the document of a memory, and refuses what recall could not
// use: 422 with a pointer to the fault.
func ParseMemory(doc []byte) (MemoryBody, error) {
	var m MemoryBody
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return MemoryBody{}, BodyFault(err)
	}
	return m, m.Validate()
}

// Validate checks what a caller may store.
func (m MemoryBody) Validate() error {
	if strings.TrimSpace(m.Text) == "" {
		return Unprocessablef("/text", "a memory needs a text that is not empty")
	}
	if len(m.Text) > MaxMemoryText {
		return Unprocessablef("/text", "the text is %d bytes long: use at most %d", len(m.Text), MaxMemoryText)
	}
	if !m.Type.known() {
		return Unprocessablef("/type", "unknown type %q: use fact, knowledge, event or experience", m.Type)
	}
	if s := bytes.TrimSpace(m.Metadata); len(s) > 0 && s[0] != '{' && string(s) != "null" {
		return Unprocessablef("/metadata", "metadata is an object")
	}
	for _, n := range []struct{ name, value string }{{"agent", m.Agent}, {"app", m.App}, {"session", m.Session}, {"embedding_model", m.EmbeddingModel}} {
		if len(n.value) > maxMemoryName {
			return Unprocessablef("/"+n.name, "%s is %d bytes long: use at most %d", n.name, len(n.value), maxMemoryName)
		}
	}
	if !(m.Importance >= 0 && m.Importance <= 1) {
		return Unprocessablef("/importance", "importance is %v: use 0 to 1", m.Importance)
	}
	if !m.EndedAt.IsZero() && m.EndedAt.Before(m.OccurredAt) {
		return Unprocessablef("/ended_at", "ended_at lies before occurred_at")
	}
	if m.Uses < 0 {
		return Unprocessablef("/uses", "uses is negative")
	}
	if len(m.Links) > MaxMemoryLinks {
		return Unprocessablef("/links", "%d links: use at most %d", len(m.Links), MaxMemoryLinks)
	}
	for i, l := range m.Links {
		if err := l.Validate(); err != nil {
			return Unprocessablef(fmt.Sprintf("/links/%d", i), "%s", DetailOf(err))
		}
	}
	return validateEmbedding(m.Embedding)
}

func (t MemoryType) known() bool {
	switch t {
	case "", MemoryFact, MemoryKnowledge, MemoryEvent, MemoryExperience:
		return true
	}
	return false
}

// Validate checks that a link has a relation and leads to an id.
func (l Link) Validate() error {
	if l.Relation == "" || len(l.Relation) > maxMemoryName {
		return Unprocessablef("/relation", "a relation is 1 to %d bytes long", maxMemoryName)
	}
	if err := ValidateID(l.To); err != nil {
		return Unprocessablef("/to", "to: %s", DetailOf(err))
	}
	return nil
}

func validateEmbedding(v []float32) error {
	if v == nil {
		return nil
	}
	if len(v) == 0 || len(v) > MaxDimensions {
		return Unprocessablef("/embedding", "an embedding of %d numbers: use 1 to %d", len(v), MaxDimensions)
	}
	zero := true
	for i, x := range v {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return Unprocessablef(fmt.Sprintf("/embedding/%d", i), "not a finite number")
		}
		zero = zero && x == 0
	}
	if zero {
		return Unprocessablef("/embedding", "an embedding of zeros has no direction")
	}
	return nil
}

// Speaker is who said it, as the metadata tell: "" when they do not.
func (m MemoryBody) Speaker() string {
	var meta struct {
		Speaker any `json:"speaker"`
	}
	if json.Unmarshal(m.Metadata, &meta) != nil {
		return ""
	}
	s, _ := meta.Speaker.(string)
	return s
}
