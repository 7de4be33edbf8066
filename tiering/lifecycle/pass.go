package lifecycle

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
)

// How a pass keeps out of the way of writers, and of what else sweeps do.
const (
	// stepFor is how long a step works and rests before documents that expired
	// meanwhile have their turn, and the lease is renewed.
	stepFor = 10 * time.Second
	// briskFor is how much of a step's work is done without a rest.
	briskFor = time.Second
	// restShare is how long a rest is, in times of the work before it: a busy
	// machine works longer on the same, and so is left alone for longer.
	restShare = 2
	// idleShare is how long nothing is looked through after a pass, in times of its
	// work: to look costs as much as warm is large, and finds little.
	idleShare = 4
)

// pass is one look through all of warm, in steps: where it stands. The zero pass
// begins now. It is for one goroutine.
type pass struct {
	at      tiering.Key // heads up to it were looked at
	demoted bool        // all of them
	cursor  string      // of versions
	retired bool        // all of them were looked at
	due     map[tiering.Move]int64
	away    bool // a bucket was: nothing left warm

	lasts  time.Duration // a step; 0: stepFor
	work   time.Duration // in all steps
	began  time.Time     // the step
	worked time.Duration // in the step
	owed   time.Duration // of rest, for work in the step
	next   time.Time     // when the next one may begin
}

// begin starts a step.
func (p *pass) begin() {
	if p.due == nil {
		p.due = map[tiering.Move]int64{}
	}
	p.began, p.worked, p.owed = time.Now(), 0, 0
}

// tired reports whether the step has lasted long enough.
func (p *pass) tired() bool {
	lasts := p.lasts
	if lasts == 0 {
		lasts = stepFor
	}
	return time.Since(p.began) >= lasts
}

// end makes the pass the next one.
func (p *pass) end() {
	*p = pass{away: p.away, next: time.Now().Add(idleShare * p.work)}
}

// leastRest is what is worth to sleep for.
const leastRest = 10 * time.Millisecond

// pace rests after a piece of work.
func (s *sweeper) pace(ctx context.Context, began time.Time) {
	p, took := s.pass, time.Since(began)
	p.work += took
	if p.worked += took; p.worked <= briskFor {
		return
	}
	if p.owed += restShare * took; p.owed >= leastRest {
		sleep(ctx, p.owed)
		p.owed = 0
	}
}
