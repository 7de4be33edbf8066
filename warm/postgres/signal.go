package postgres

import "sync"

// signal wakes everyone who waits. The zero value works.
type signal struct {
	mu sync.Mutex
	ch chan struct{} // nil while nobody waits
}

// wait returns a channel that the next wake closes.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
