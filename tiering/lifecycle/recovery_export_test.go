package lifecycle

import "context"

// VerifyStep is one step of the verify worker.
func (e *Engine) VerifyStep(ctx context.Context) error {
	_, err := e.underLease(ctx, "verify", e.sampleCopies)
	return err
}

// NewLineage is a lineage of lives, oldest first.
func NewLineage(epochs ...string) *Lineage { return &Lineage{epochs: epochs} }
