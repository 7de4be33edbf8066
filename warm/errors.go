package warm

import "errors"

// ErrOutcomeUnknown wraps a commit error after which the batch may or may not
// have been committed.
var ErrOutcomeUnknown = errors.New("outcome of the commit is unknown")
