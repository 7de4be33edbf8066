package postgres

import (
	"errors"

	"github.com/tierd/tierd/tiering"
)

// A store belongs to one life of its schema: it knows the numbers of
// namespaces, and what it writes to cold is of that life. When the schema is
// dropped and rebuilt under a daemon that runs, every statement of it that
// writes fails, and then the store as a whole.

// askLife fails with stateAnotherLife unless the schema lives the life $1.
const (
	askLife          = `SELECT FROM life($1)`
	stateAnotherLife = "TI001"
)

// ErrAnotherLife is in every error of a store whose schema was seen to live
// another life: the store is of no use any more.
var ErrAnotherLife = errors.New("the schema lives another life")

var errAnotherLife = &tiering.Error{Tier: tiering.Warm, Code: tiering.CodeUnavailable, Err: ErrAnotherLife,
	Detail: "the database was rebuilt, or replaced by another, while this daemon ran: restart it"}

// life is the life that this store belongs to.
func (s *Store) life() string { return *s.epoch.Load() }
