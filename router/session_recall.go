package router

import (
	"context"

	"github.com/tierd/tierd/tiering"
)

// contextMemories is how many memories a context looks for.
const contextMemories = 10

// recallFor finds the memories that a context asks for; nil when it asks for none.
// They are the user's of the session, and those that nobody owns: what another
// user is remembered by is not for this conversation, whoever asks.
func (s sessions) recallFor(ctx context.Context, at *standingSession, o tiering.ContextOptions) (*tiering.Recalled, error) {
	if o.Recall == "" {
		if len(o.Memories) > 0 {
			return nil, tiering.Invalidf("memories goes with recall: say what to look for")
		}
		return nil, nil
	}
	spaces := o.Memories
	if len(spaces) == 0 {
		all, err := s.listNamespaces(ctx)
		if err != nil {
			return nil, err
		}
		for _, ns := range all {
			if ns.Kind == tiering.KindMemory && s.admitNamespace(tiering.VerbRead, ns.Name) == nil && len(spaces) < maxNamespaces {
				spaces = append(spaces, ns.Name)
			}
		}
		if len(spaces) == 0 {
			return &tiering.Recalled{}, nil
		}
	}
	return s.recallOf(ctx, at.log.User, tiering.Recall{Namespaces: spaces, Query: o.Recall, K: contextMemories})
}

// recallOf recalls the memories of a user, and where the principal may see them
// those of nobody: others' are not even read.
func (s sessions) recallOf(ctx context.Context, user string, q tiering.Recall) (*tiering.Recalled, error) {
	return s.recall(ctx, q, func(owner string) bool { return owner == "" || owner == user })
}
