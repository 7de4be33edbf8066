package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/tiering"
)

// counter is a document that several writers raise by one at a time, each on the
// condition that what it has read still stands.
type counter struct {
	id           string
	acked, maybe atomic.Int64
}

// raise adds one, or gives up where the others are always faster.
func (n *counter) raise(ctx context.Context, c *client.Client) error {
	for range 5 {
		at, body := tiering.IfAbsent(), struct{ N int64 }{}
		d, err := c.Get(ctx, documents, n.id, &tiering.GetOptions{Strong: true})
		switch {
		case errors.Is(err, tiering.ErrNotFound):
		case err != nil:
			return err
		default:
			at = tiering.IfVersion(d.Version)
			if err := json.Unmarshal(d.Body, &body); err != nil {
				return err
			}
		}
		_, err = c.Put(ctx, documents, n.id, fmt.Appendf(nil, `{"N":%d}`, body.N+1), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: at}})
		switch {
		case err == nil:
			n.acked.Add(1)
			return nil
		case tiering.CodeOf(err) != tiering.CodeVersionConflict:
			n.maybe.Add(1)
			return err
		}
	}
	return nil
}

// check: each acknowledged step counts once, and one that was on its way at most once.
func (n *counter) check(ctx context.Context, c *client.Client, wrong says) {
	var body struct{ N int64 }
	d, err := c.Get(ctx, documents, n.id, &tiering.GetOptions{Strong: true})
	if err == nil {
		err = json.Unmarshal(d.Body, &body)
	} else if errors.Is(err, tiering.ErrNotFound) && n.acked.Load() == 0 {
		return
	}
	if err != nil {
		wrong("%s: %v", n.id, err)
	} else if least, most := n.acked.Load(), n.acked.Load()+n.maybe.Load(); body.N < least || body.N > most {
		wrong("%s counts %d, and %d to %d steps were taken", n.id, body.N, least, most)
	}
}

// tenure is the lease of a session that somebody had when the daemon died.
type tenure struct {
	id   string
	held *tiering.SessionLease // nil: he was not answered
}

func (n *tenure) take(ctx context.Context, c *client.Client) error {
	if _, err := c.Sessions().Create(ctx, &tiering.NewSession{ID: n.id}); err != nil {
		return err
	}
	var err error
	n.held, err = c.Sessions().AcquireLease(ctx, n.id, &tiering.LeaseRequest{Holder: "the first"})
	return err
}

// check: he who had the lease has it, and once a successor does nothing of his passes.
func (n *tenure) check(ctx context.Context, c *client.Client, wrong says) {
	if n.held == nil {
		return
	}
	write := func(l *tiering.SessionLease) error {
		f := l.Fence()
		_, err := c.Put(ctx, documents, n.id, []byte(`{}`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{Fence: &f}})
		return err
	}
	if err := write(n.held); err != nil && tiering.CodeOf(err) != tiering.CodeFenced { // fenced: the time of his lease is over
		wrong("%s: a write under the lease: %v", n.id, err)
	}
	if err := c.Sessions().ReleaseLease(ctx, n.id, n.held.Token); err != nil && tiering.CodeOf(err) != tiering.CodeFenced {
		wrong("%s: the lease is given up: %v", n.id, err)
	}
	next, err := c.Sessions().AcquireLease(ctx, n.id, &tiering.LeaseRequest{Holder: "the second"})
	if err != nil {
		wrong("%s: the lease is taken after it was given up: %v", n.id, err)
		return
	}
	if err := write(next); err != nil {
		wrong("%s: a write under the successor's lease: %v", n.id, err)
	}
	if err := write(n.held); tiering.CodeOf(err) != tiering.CodeFenced {
		wrong("%s: a write under token %d, while %d stands: %v", n.id, n.held.Token, next.Token, err)
	}
}
