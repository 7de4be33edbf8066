package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tierd/tierd/tiering"
)

// Node measures a whole node: each conversation is a namespace of its own, and
// each turn a memory. The node must run in this process, for the yardstick of
// plain words.
type Node struct {
	Service tiering.Memories
	// Namespace begins the names of the namespaces that are made.
	Namespace string
}

var _ Searcher = Node{}

func (n Node) namespace(conversation string) string {
	return fmt.Sprintf("%s-%x", n.Namespace, conversation)
}

// Remember stores the turns of a conversation.
func (n Node) Remember(ctx context.Context, c Conversation) error {
	const most = 500
	for at := 0; at < len(c.Memories); at += most {
		var page []tiering.NewMemory
		for _, m := range c.Memories[at:min(at+most, len(c.Memories))] {
			body := tiering.MemoryBody{Text: m.Text, Session: m.Session, OccurredAt: m.Time}
			if m.Speaker != "" {
				meta, err := json.Marshal(map[string]string{"speaker": m.Speaker})
				if err != nil {
					return err
				}
				body.Metadata = meta
			}
			page = append(page, tiering.NewMemory{ID: m.ID, MemoryBody: body})
		}
		_, errs, err := n.Service.Remember(ctx, n.namespace(c.ID), page, &tiering.RememberOptions{Wait: true})
		if err := errors.Join(append(errs, err)...); err != nil {
			return err
		}
	}
	return nil
}

// Search recalls.
func (n Node) Search(ctx context.Context, s Search) ([]string, error) {
	q := tiering.Recall{Namespaces: []string{n.namespace(s.Conversation)}, Query: s.Text, K: s.K}
	switch s.Mode {
	case Words:
		q.Mode, q.Plain = tiering.RecallLexical, true
	case Vectors:
		q.Mode, q.Plain = tiering.RecallVector, true
	}
	got, err := n.Service.Recall(ctx, &q)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, m := range got.Matches {
		ids = append(ids, m.ID)
	}
	return ids, nil
}
