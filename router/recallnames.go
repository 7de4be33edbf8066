package router

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// recallsDoc is the part, oldest first. It names memories by aliases, so that a memory
// that is erased is named nowhere in it, nor in what was archived of it: an erase need
// not know of it.
type recallsDoc struct {
	Recalls []notedRecall `json:"recalls"`
}

// notedRecall is a tiering.SessionRecall as it is stored.
type notedRecall struct {
	Time     time.Time     `json:"time"`
	Query    string        `json:"query"`
	Memories []notedMemory `json:"memories"`
	LeftOut  int           `json:"left_out,omitempty"`
	Partial  bool          `json:"partial,omitempty"`
}

type notedMemory struct {
	Namespace string     `json:"namespace"`
	Alias     warm.Alias `json:"alias,omitempty"` // "": it was gone before this was written
	Version   int64      `json:"version"`
	Score     float64    `json:"score"`
}

// aliased is recalls as they are stored.
func (s sessions) aliased(ctx context.Context, recalls []tiering.SessionRecall) ([]notedRecall, error) {
	var keys []tiering.Key
	for _, r := range recalls {
		for _, m := range r.Memories {
			keys = append(keys, s.key(m.Namespace, m.ID))
		}
	}
	aliases, err := s.Warm.AliasesOf(ctx, keys)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	out := make([]notedRecall, len(recalls))
	for i, r := range recalls {
		out[i] = notedRecall{Time: r.Time, Query: r.Query, Memories: make([]notedMemory, len(r.Memories)), LeftOut: r.LeftOut, Partial: r.Partial}
		for j, m := range r.Memories {
			out[i].Memories[j] = notedMemory{Namespace: m.Namespace, Alias: aliases[0], Version: m.Version, Score: m.Score}
			aliases = aliases[1:]
		}
	}
	return out, nil
}

// named is stored recalls with the memories that are still there by their ids.
func (s sessions) named(ctx context.Context, noted []notedRecall) ([]tiering.SessionRecall, error) {
	var aliases []warm.Alias
	for _, r := range noted {
		for _, m := range r.Memories {
			aliases = append(aliases, m.Alias)
		}
	}
	keys, err := s.Warm.Aliased(ctx, s.who.Tenant, aliases)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	out := make([]tiering.SessionRecall, len(noted))
	for i, r := range noted {
		out[i] = tiering.SessionRecall{Time: r.Time, Query: r.Query, Memories: make([]tiering.RecalledMemory, len(r.Memories)), LeftOut: r.LeftOut, Partial: r.Partial}
		for j, m := range r.Memories {
			out[i].Memories[j] = tiering.RecalledMemory{Namespace: m.Namespace, ID: keys[0].ID, Version: m.Version, Score: m.Score, Gone: keys[0].ID == ""}
			keys = keys[1:]
		}
	}
	return out, nil
}
