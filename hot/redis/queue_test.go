package redis

import "testing"

// The bytes of calls belong to whoever sends them until the calls are finished: a
// caller that gave up does not take its buffer back.
func TestACallThatWasGivenUpIsUnderWay(t *testing.T) {
	sent, left := &call{}, &call{done: make(chan struct{})}
	if sent.underway() || !left.underway() {
		t.Error("a call that nobody else sends is under way, or one that a sender has is not")
	}
	if left.finish(nil, nil); left.underway() {
		t.Error("a finished call is under way")
	}
}
