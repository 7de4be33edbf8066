package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/term"
)

// progress is a bar on stderr, drawn only when that is a terminal. The zero
// value draws nothing. It is safe for concurrent use.
type progress struct {
	mu    sync.Mutex
	w     io.Writer
	total int64 // bytes; 0: unknown
	done  int64
	drawn time.Time
}

const drawEvery = 100 * time.Millisecond

func newProgress(p *process, total int64) *progress {
	f, ok := p.stderr.(interface{ Fd() uintptr })
	if !ok || p.json || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return &progress{w: p.stderr, total: total}
}

func (b *progress) add(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += n
	if b.w == nil || time.Since(b.drawn) < drawEvery {
		return
	}
	b.drawn = time.Now()
	_, _ = fmt.Fprintf(b.w, "\r%s\x1b[K", barText(b.done, b.total))
}

// set tells how much of how much is done.
func (b *progress) set(done, total int64) {
	b.mu.Lock()
	b.total = total
	more := done - b.done
	b.mu.Unlock()
	if more > 0 {
		b.add(more)
	}
}

func (b *progress) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w != nil {
		_, _ = io.WriteString(b.w, "\r\x1b[K")
	}
}

// finish removes the bar.
func (b *progress) finish() { b.clear() }

// barText draws how much of total is done; without a total it only counts.
func barText(done, total int64) string {
	if total <= 0 {
		return size(done)
	}
	const width = 30
	share := min(float64(done)/float64(total), 1)
	full := int(share * width)
	bar := make([]byte, width)
	for i := range bar {
		bar[i] = ' '
		if i < full {
			bar[i] = '='
		}
	}
	return fmt.Sprintf("[%s] %3.0f%%  %s of %s", bar, share*100, size(done), size(total))
}
