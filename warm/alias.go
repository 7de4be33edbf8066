package warm

import (
	"context"

	"github.com/tierd/tierd/tiering"
)

// Alias names one life of a key without saying which key that is: it leads to the
// key for as long as that life lasts, and in this life of the store alone. What
// notes down a key by its alias has to be neither found nor rewritten when the key
// is erased. The zero Alias leads nowhere.
type Alias string

// Aliases tells keys from aliases. A life of a key ends when it is deleted, expires
// or is erased; whatever takes its place under the same id has another alias.
type Aliases interface {
	// AliasesOf returns the aliases of keys, in their order: the zero Alias where
	// nothing lives.
	AliasesOf(ctx context.Context, keys []tiering.Key) ([]Alias, error)
	// Aliased returns the keys of the tenant that aliases lead to, in their order:
	// the zero Key where an alias leads nowhere, or is none.
	Aliased(ctx context.Context, tenant string, aliases []Alias) ([]tiering.Key, error)
}
