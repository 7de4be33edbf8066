package server

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
)

func (f *fake) Demote(_ context.Context, ns, id string) (*tiering.Explanation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.stored(ns, id)
	switch {
	case d == nil:
		return nil, tiering.Errorf(tiering.CodeNotFound, "nothing stands under the key")
	case id == "pinned":
		return nil, tiering.Errorf(tiering.CodeWrongKind, "the document is pinned: lift the pin first")
	case id == "young":
		return nil, &tiering.Error{Code: tiering.CodeUnavailable, RetryAfter: time.Second, Detail: "the document waits for two verified cold copies"}
	}
	return &tiering.Explanation{Meta: d.Meta, State: "live", Next: tiering.Action{Move: tiering.MoveStay}}, nil
}

func (f *fake) Promote(ctx context.Context, ns, id string) (*tiering.Explanation, error) {
	return f.Demote(ctx, ns, id)
}

// Erase counts what it is asked to; a user's erase is not done at once.
func (f *fake) Erase(_ context.Context, r tiering.EraseRequest) (*tiering.EraseReceipt, error) {
	if r.ID == "" && r.Prefix == "" && r.User == "" {
		return nil, tiering.Unprocessablef("", "nothing is selected")
	}
	switch {
	case r.DryRun == nil || *r.DryRun:
		return &tiering.EraseReceipt{DryRun: true, State: "planned", Selector: "id", Keys: 1, Versions: 2, Bytes: 3, Segments: 1}, nil
	case r.User != "":
		return &tiering.EraseReceipt{ID: "r1", State: "running", Selector: "user", Keys: 1, Segments: 1, Started: fakeNow, Blocked: "the backup cannot be reached"}, nil
	}
	return f.Erasure(context.Background(), "r1")
}

func (f *fake) Erasure(_ context.Context, id string) (*tiering.EraseReceipt, error) {
	if id != "r1" {
		return nil, tiering.Errorf(tiering.CodeNotFound, "there is no such receipt")
	}
	return &tiering.EraseReceipt{ID: "r1", State: "done", Selector: "id", Digest: "hmac-sha256:00", Keys: 1, Started: fakeNow, Finished: fakeNow}, nil
}

func (f *fake) ConfirmClock(context.Context) error { return f.fail }
