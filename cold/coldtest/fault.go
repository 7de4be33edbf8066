package coldtest

import (
	"context"
	"io"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/tierd/tierd/cold"
)

// Call names a method of a bucket.
type Call string

// The methods that a FaultBucket counts and breaks.
const (
	Create Call = "create"
	Read   Call = "read"
	Stat   Call = "stat"
	List   Call = "list"
	Delete Call = "delete"
	Ping   Call = "ping"
)

// Fault is something that goes wrong. Of its effects those that are set
// happen, in the order of the fields.
type Fault struct {
	// Call is the method, "" for all. Name is what the object's name has to
	// contain.
	Call Call
	Name string
	// Times is how many matching calls it befalls; 0 is all until Clear.
	Times int

	// Reached, when set, is closed when the first such call arrives; Gate,
	// when set, holds every such call until it is closed or the context ends.
	Reached chan struct{}
	Gate    <-chan struct{}
	// Delay holds the call, or until the context ends.
	Delay time.Duration
	// Before fails the call; the bucket is not asked.
	Before error
	// After fails the call once the bucket has done it: the reply is lost.
	After error
	// Truncate drops that many bytes from the end of what Read returns, with
	// no error: a driver that does not notice.
	Truncate int
	// Flip inverts the lowest bit of the byte at FlipAt of what Read returns;
	// an offset beyond its end counts round.
	Flip   bool
	FlipAt int
}

// FaultBucket passes calls on to another bucket, counts them, and breaks those
// that it was told to. It is safe for concurrent use.
type FaultBucket struct {
	bucket cold.Bucket

	mu     sync.Mutex
	faults []*Fault
	calls  map[Call]int
}

var _ cold.Bucket = (*FaultBucket)(nil)

// NewFaultBucket wraps b, with no faults yet.
func NewFaultBucket(b cold.Bucket) *FaultBucket {
	return &FaultBucket{bucket: b, calls: map[Call]int{}}
}

// Inject adds a fault. Of several that match, the first one added befalls.
func (f *FaultBucket) Inject(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, &fault)
}

// Clear removes all faults.
func (f *FaultBucket) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
}

// Calls returns how often a method was called, broken calls included; "" is
// all of them.
func (f *FaultBucket) Calls(c Call) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for call, k := range f.calls {
		if c == "" || c == call {
			n += k
		}
	}
	return n
}

// take counts a call, picks its fault, and does what comes before the bucket.
func (f *FaultBucket) take(ctx context.Context, c Call, name string) (Fault, error) {
	fault := f.pick(c, name)
	if fault.Gate != nil {
		select {
		case <-fault.Gate:
		case <-ctx.Done():
			return fault, ctx.Err()
		}
	}
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fault, ctx.Err()
		}
	}
	return fault, fault.Before
}

func (f *FaultBucket) pick(c Call, name string) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[c]++
	for i, fault := range f.faults {
		if fault.Call != "" && fault.Call != c || !strings.Contains(name, fault.Name) {
			continue
		}
		out := *fault
		if fault.Reached != nil {
			close(fault.Reached)
			fault.Reached = nil
		}
		if fault.Times == 1 {
			f.faults = append(f.faults[:i:i], f.faults[i+1:]...)
		} else if fault.Times > 1 {
			fault.Times--
		}
		return out
	}
	return Fault{}
}

// Create passes on.
func (f *FaultBucket) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	fault, err := f.take(ctx, Create, name)
	if err != nil {
		return err
	}
	return either(f.bucket.Create(ctx, name, body, size), fault.After)
}

// Read passes on, and spoils what comes back.
func (f *FaultBucket) Read(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	fault, err := f.take(ctx, Read, name)
	if err != nil {
		return nil, err
	}
	b, err := f.bucket.Read(ctx, name, offset, length)
	if err = either(err, fault.After); err != nil {
		return nil, err
	}
	b = b[:max(0, len(b)-fault.Truncate)]
	if fault.Flip && len(b) > 0 {
		b[fault.FlipAt%len(b)] ^= 1
	}
	return b, nil
}

// Stat passes on.
func (f *FaultBucket) Stat(ctx context.Context, name string) (cold.ObjectInfo, error) {
	fault, err := f.take(ctx, Stat, name)
	if err != nil {
		return cold.ObjectInfo{}, err
	}
	info, err := f.bucket.Stat(ctx, name)
	return info, either(err, fault.After)
}

// List passes on; Name is compared with the prefix, and After comes behind the
// first object.
func (f *FaultBucket) List(ctx context.Context, prefix string) iter.Seq2[cold.ObjectInfo, error] {
	return func(yield func(cold.ObjectInfo, error) bool) {
		fault, err := f.take(ctx, List, prefix)
		if err != nil {
			yield(cold.ObjectInfo{}, err)
			return
		}
		for info, err := range f.bucket.List(ctx, prefix) {
			if !yield(info, err) || err != nil {
				return
			}
			if fault.After != nil {
				yield(cold.ObjectInfo{}, fault.After)
				return
			}
		}
	}
}

// Delete passes on.
func (f *FaultBucket) Delete(ctx context.Context, name string) error {
	fault, err := f.take(ctx, Delete, name)
	if err != nil {
		return err
	}
	return either(f.bucket.Delete(ctx, name), fault.After)
}

// Ping passes on.
func (f *FaultBucket) Ping(ctx context.Context) error {
	fault, err := f.take(ctx, Ping, "")
	if err != nil {
		return err
	}
	return either(f.bucket.Ping(ctx), fault.After)
}

// Close closes the bucket beneath.
func (f *FaultBucket) Close() error { return f.bucket.Close() }

func either(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
