package window

import (
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

// recallShare is the part of what the turns to keep leave that recalled memories
// may take.
const recallShare = 3

// memoriesHead tells recalled memories from what was said.
const memoriesHead = "From long-term memory, not said in this conversation:"

// recall is one message of the recalled memories that fit a share of room, best
// first, and says which they are. A memory that does not fit leaves its place to
// those behind it.
func (o Options) recall(room int) ([]message, *tiering.ContextRecall) {
	if o.Recalled == nil {
		return nil, nil
	}
	told := &tiering.ContextRecall{Memories: []tiering.RecalledMemory{}, Partial: o.Recalled.Partial, Reason: o.Recalled.Reason}
	m := message{role: "user", text: memoriesHead}
	for _, match := range o.Recalled.Matches {
		if match.Score.Relevance == 0 {
			continue // has nothing of what was asked for
		}
		longer := m
		longer.text += "\n" + memoryLine(match.Memory)
		if o.cost([]message{longer}) > room/recallShare {
			told.LeftOut++
			continue
		}
		m = longer
		told.Memories = append(told.Memories, tiering.RecalledMemory{Namespace: match.Namespace, ID: match.ID, Version: match.Version, Score: match.Score.Total})
	}
	if len(told.Memories) == 0 {
		return nil, told
	}
	all := []message{m}
	told.Tokens = o.cost(all)
	return all, told
}

// memoryLine is a memory as one line, with the day on which it happened.
func memoryLine(m tiering.Memory) string {
	line := strings.Join(strings.Fields(m.Text), " ")
	if !m.OccurredAt.IsZero() {
		line = m.OccurredAt.UTC().Format(time.DateOnly) + ": " + line
	}
	return "- " + line
}
