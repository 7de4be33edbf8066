// Package signal tells those who wait that something has come.
package signal

import "sync"

// Signal wakes everyone who waits. The zero value works.
type Signal struct {
	mu sync.Mutex
	ch chan struct{} // nil while nobody waits
}

// Wait returns a channel that the next Wake closes.
func (s *Signal) Wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// Wake closes the channels that were given out. It costs a lock while nobody waits.
func (s *Signal) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
