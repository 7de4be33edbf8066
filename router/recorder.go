package router

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
)

// Recorder takes the router's measurements. Methods are called on the request
// path: they must not block.
type Recorder interface {
	// Load is one document read, by the tier that served it; err is nil, or
	// why nothing was served.
	Load(tier tiering.Tier, took time.Duration, err error)
	// Corrupt is one copy whose bytes did not match their digest.
	Corrupt(tier tiering.Tier)
	// HotLookup is one look into hot on a cached read.
	HotLookup(hit bool)
	// HotMissed is one committed write that hot did not take.
	HotMissed()
	// StateSize is the size in bytes of a document written; warned says that
	// it is above its namespace's warning size.
	StateSize(bytes int64, warned bool)
	// Batch is one committed batch with its rows.
	Batch(rows int)
	// SummaryCall is one request to the chat server that makes summaries.
	SummaryCall(took time.Duration, err error)
	// ContextSummary is one context with a summary, by its kind, where a model is
	// configured.
	ContextSummary(kind string)
	// Commit starts a span around one key's commit; the returned function ends
	// it with the version made and the states under the policy's
	// status_pointer, "" where there is none.
	Commit(ctx context.Context, op string, key tiering.Key) (context.Context, func(version int64, from, to string, err error))
}

// discard is the Recorder of a router that was given none.
type discard struct{}

func (discard) Load(tiering.Tier, time.Duration, error) {}
func (discard) Corrupt(tiering.Tier)                    {}
func (discard) HotLookup(bool)                          {}
func (discard) HotMissed()                              {}
func (discard) StateSize(int64, bool)                   {}
func (discard) Batch(int)                               {}
func (discard) SummaryCall(time.Duration, error)        {}
func (discard) ContextSummary(string)                   {}
func (discard) Commit(ctx context.Context, _ string, _ tiering.Key) (context.Context, func(int64, string, string, error)) {
	return ctx, func(int64, string, string, error) {}
}
