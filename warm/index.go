package warm

import (
	"context"

	"github.com/tierd/tierd/tiering"
)

// QueryIndexer is what a Store may also be, where an index by content helps
// queries. An index never changes an answer: it says which documents are worth
// a look.
type QueryIndexer interface {
	// ListEverywhere returns the live documents, with their bytes, of the
	// namespaces of one name in all tenants, in key order above after.
	ListEverywhere(ctx context.Context, namespace string, after tiering.Key, limit int) ([]Current, error)
	// IndexQueries builds the indexes that the namespaces wanted lack, and drops
	// those of all others. It may take as long as their documents are many, and is
	// for one daemon at a time; one that dies leaves nothing that a later call does
	// not clear up. Every row written to a wanted namespace has to have Query set,
	// from before the call until StopQueryIndex.
	IndexQueries(ctx context.Context, wanted []tiering.Key) error
	// StopQueryIndex keeps queries of a namespace from using its index from now
	// on: rows without Query may follow. Unless IndexQueries wants it again, the
	// index goes with its next call.
	StopQueryIndex(ctx context.Context, tenant, namespace string) error
	// QueryIndexed reports whether queries of a namespace use an index.
	QueryIndexed(ctx context.Context, tenant, namespace string) (bool, error)
}
