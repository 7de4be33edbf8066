package lifecycle

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// indexPause is how often policies are looked through for indexes that they
// ask for.
const indexPause = 15 * time.Second

// indexQueries sees to the indexes that policies ask for, where warm has such.
// A policy counts once every daemon knows of it: until then one may still write
// documents that no index would find.
func (e *Engine) indexQueries(ctx context.Context, l warm.Lease) (time.Duration, error) {
	store, ok := warm.As[warm.QueryIndexer](e.Warm)
	if !ok {
		return time.Hour, nil
	}
	now, err := e.Warm.Now(ctx)
	if err != nil {
		return 0, err
	}
	wanted, err := e.indexed(ctx, store, now)
	if err != nil {
		return 0, err
	}
	// A build takes longer than a lease lasts: it is renewed meanwhile.
	ctx, cancel := context.WithCancel(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		for sleep(ctx, e.LeaseTTL/3) {
			if e.stillHeld(ctx, l) != nil {
				cancel() // the database goes on by itself; whoever is next finds what it made
			}
		}
	}()
	err = store.IndexQueries(ctx, wanted)
	cancel()
	<-renewed
	return indexPause, err
}

// IndexQueries is what the worker does, now, for tests and operators. It fails
// with lease_held where another daemon sees to indexes.
func (e *Engine) IndexQueries(ctx context.Context) error {
	_, err := e.underLease(ctx, "queries", e.indexQueries)
	return err
}

// indexed are the namespaces whose policies ask for an index. One whose policy
// cannot be read goes without.
func (e *Engine) indexed(ctx context.Context, store warm.QueryIndexer, now time.Time) (wanted []tiering.Key, err error) {
	after := tiering.Key{}
	for {
		page, err := store.ListEverywhere(ctx, tiering.PolicyNamespace, after, walkPage)
		if err != nil {
			return nil, err
		}
		for _, cur := range page {
			after = cur.Head.Key
			var p tiering.Policy
			if tiering.DigestOf(cur.Body) != cur.Head.Digest || json.Unmarshal(cur.Body, &p) != nil {
				continue
			}
			if p.WithDefaults().Indexed() && !cur.Head.UpdatedAt.After(now.Add(-e.PolicySettle)) {
				wanted = append(wanted, tiering.Key{Tenant: after.Tenant, Namespace: after.ID})
			}
		}
		if len(page) < walkPage {
			return wanted, nil
		}
	}
}
