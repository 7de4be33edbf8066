package cold

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tierd/tierd/internal/soundness"
	"github.com/tierd/tierd/tiering"
)

// copies lists both copies, the one that is asked first in front.
var copies = [2]tiering.Copy{tiering.Primary, tiering.Backup}

// ArchiveOptions shapes an Archive. The zero value is good.
type ArchiveOptions struct {
	// Prefix goes before every name in both buckets, with a slash between.
	// Names in the catalog and in reports are without it.
	Prefix string
	// OnBad is told of every copy that did not serve a Read that it should
	// have: err is corrupt when its bytes are wrong or gone (errors.Is with
	// ErrNotExist tells which), unavailable when it could not be reached. It
	// may be called from many goroutines and must return at once.
	OnBad func(name string, c tiering.Copy, err error)
	// Patience is how long a Read waits for both copies together where neither
	// answers; 0 is 3 s. The copy asked first has half of it. What needs several
	// requests has it for each.
	Patience time.Duration
	// WritePatience is how long a Write waits for a bucket to take an object, and
	// a second more for each MiB; 0 is 4 s. It grows for a bucket that answers
	// and did not make it in that time.
	WritePatience time.Duration
	// Cooldown is how long a copy that could not be reached is asked last; 0
	// is 5 s.
	Cooldown time.Duration
	// CacheBytes bounds the blocks kept in memory for reads that come again;
	// 0 is 32 MiB, below 0 keeps none.
	CacheBytes int64
}

// Archive keeps every object twice, in two buckets, and reads from either. It
// holds no state but buffers and which bucket failed or was corrupt lately; the catalog of what lies
// where is warm's. Methods are safe for concurrent use. Their errors are
// *tiering.Error.
type Archive struct {
	buckets  [2]Bucket
	onBad    func(string, tiering.Copy, error)
	patience time.Duration
	writing  time.Duration // WritePatience
	cooldown time.Duration
	pool     unpackers
	failed   [2]atomic.Int64 // when the copy last could not be reached, in Unix ns
	slow     [2]atomic.Int32 // how often in a row it answered and took no object in time
	judges   [2]soundness.Breaker
	blocks   *blockCache
}

// NewArchive returns an archive over two buckets, which stay the caller's to
// close. o may be nil.
func NewArchive(primary, backup Bucket, o *ArchiveOptions) *Archive {
	if o == nil {
		o = &ArchiveOptions{}
	}
	a := &Archive{
		buckets:  [2]Bucket{Prefixed(primary, o.Prefix), Prefixed(backup, o.Prefix)},
		onBad:    o.OnBad,
		patience: o.Patience,
		writing:  o.WritePatience,
		cooldown: o.Cooldown,
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 32 << 20
	}
	a.blocks = newBlockCache(o.CacheBytes)
	if a.onBad == nil {
		a.onBad = func(string, tiering.Copy, error) {}
	}
	if a.patience <= 0 {
		a.patience = 3 * time.Second
	}
	if a.writing <= 0 {
		a.writing = 4 * time.Second
	}
	if a.cooldown <= 0 {
		a.cooldown = 5 * time.Second
	}
	return a
}

// SegmentPrefix is what the names of all segments start with.
const SegmentPrefix = "seg/"

// Name returns a name for a new segment: seg/<ulid>-<token>.tseg. It never
// repeats, holds no user text, and sorts by now. token is that of the lease
// under which the segment is written.
func (a *Archive) Name(now time.Time, token int64) string {
	// Clamped to what a ULID holds, so that a wild clock cannot make it fail.
	ms := uint64(min(max(now.UnixMilli(), 0), int64(ulid.MaxTime())))
	var id ulid.ULID
	_ = id.SetTime(ms)       // fails only beyond MaxTime
	_, _ = rand.Read(id[6:]) // never fails
	return SegmentPrefix + strings.ToLower(id.String()) + "-" + strconv.FormatInt(token, 10) + ".tseg"
}

// Bucket returns one copy's bucket, under the prefix.
func (a *Archive) Bucket(c tiering.Copy) Bucket { return a.buckets[c] }

// Ping asks both buckets whether they can be read and written.
func (a *Archive) Ping(ctx context.Context) [2]error {
	return a.both(func(c tiering.Copy) error {
		return tiering.Wrap(a.buckets[c].Ping(ctx), "ping "+c.String(), tiering.Cold, tiering.Key{})
	})
}

// both does something to the two copies at once and waits for both.
func (a *Archive) both(do func(tiering.Copy) error) (errs [2]error) {
	var wg sync.WaitGroup
	for _, c := range copies {
		wg.Go(func() { errs[c] = do(c) })
	}
	wg.Wait()
	return errs
}

// OpenObject reads one copy of a segment whole and checks it, for verification
// and rebuild. not_found means that the bucket answered and has no such object,
// gone that the name is occupied: see Occupy.
func (a *Archive) OpenObject(ctx context.Context, c tiering.Copy, name string) (*Segment, error) {
	s, _, err := a.openObject(ctx, c, name)
	return s, tiering.Wrap(err, "open "+name+" in "+c.String(), tiering.Cold, tiering.Key{})
}

func (a *Archive) openObject(ctx context.Context, c tiering.Copy, name string) (*Segment, []byte, error) {
	data, err := a.buckets[c].Read(ctx, name, 0, -1)
	if errors.Is(err, ErrNotExist) {
		return nil, nil, &tiering.Error{Code: tiering.CodeNotFound, Err: err}
	}
	if err != nil {
		return nil, nil, err
	}
	if Occupied(data) {
		return nil, nil, errOccupied()
	}
	s, err := OpenSegment(bytes.NewReader(data), int64(len(data)))
	return s, data, err
}

// CopyObject makes the copy to of a segment from the copy from, which it
// checks down to every record first, and reads the new one back. An object
// that is there already with other bytes is corrupt, and left: to replace it, it
// would have to be deleted, and by then it may be the marker of an erase.
func (a *Archive) CopyObject(ctx context.Context, from, to tiering.Copy, name string) error {
	data, err := a.sound(ctx, from, name)
	if err != nil {
		return err
	}
	return a.Write(ctx, to, name, data)
}

// sound returns the bytes of a copy of a segment without any fault.
func (a *Archive) sound(ctx context.Context, c tiering.Copy, name string) ([]byte, error) {
	s, data, err := a.openObject(ctx, c, name)
	if err == nil {
		for _, recErr := range s.Records() {
			err = recErr
		}
	}
	return data, tiering.Wrap(err, "copy "+name+" from "+c.String(), tiering.Cold, tiering.Key{})
}
