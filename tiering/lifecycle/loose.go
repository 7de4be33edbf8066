package lifecycle

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// looseObject is an object under the segments' prefix that is not a finished
// segment: one that is being written, one that waits for its end, or a
// stranger that the catalog does not know.
type looseObject struct {
	name  string
	state tiering.SegmentState // "" for a stranger
	at    [2]bool              // which buckets hold it
	size  [2]int64
	seen  [2]time.Time // when each bucket took it
}

// looseObjects lists both buckets, whole or not at all. The buckets are listed
// before the catalog is read: an object's intent is in the catalog before the
// object is there, so that none is taken for a stranger that is only young.
func (e *Engine) looseObjects(ctx context.Context) ([]looseObject, error) {
	byName := map[string]*looseObject{}
	var order []*looseObject
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		for info, err := range e.Archive.Bucket(c).List(ctx, cold.SegmentPrefix) {
			if err != nil {
				return nil, tiering.Wrap(err, "list segments in "+c.String(), tiering.Cold, tiering.Key{})
			}
			o := byName[info.Name]
			if o == nil {
				o = &looseObject{name: info.Name}
				byName[info.Name] = o
				order = append(order, o)
			}
			o.at[c], o.size[c], o.seen[c] = true, info.Size, info.ModTime
		}
	}
	finished := map[string]bool{}
	err := e.eachSegment(ctx, "", "", func(s tiering.SegmentInfo) error {
		if s.State == tiering.SegmentFinished {
			finished[s.Name] = true
		} else if o := byName[s.Name]; o != nil {
			o.state = s.State
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []looseObject
	for _, o := range order {
		if !finished[o.name] {
			out = append(out, *o)
		}
	}
	return out, nil
}

// named is the time that the object's name gives; ok is false for a name that
// tierd did not make.
func (o looseObject) named() (at time.Time, ok bool) {
	id, rest, found := strings.Cut(strings.TrimPrefix(o.name, cold.SegmentPrefix), "-")
	if !found || !strings.HasSuffix(rest, ".tseg") {
		return time.Time{}, false
	}
	u, err := ulid.ParseStrict(strings.ToUpper(id))
	if err != nil {
		return time.Time{}, false
	}
	return ulid.Time(u.Time()).UTC(), true
}

// youngest is the latest time that anything says the object is of.
func (o looseObject) youngest(named time.Time) time.Time {
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		if o.at[c] && o.seen[c].After(named) {
			named = o.seen[c]
		}
	}
	return named
}

// maxMarker is above the size of a marker, so that no segment is read whole to
// see that it is none.
const maxMarker = 1 << 10

// looseIndex answers whether a loose object holds something of a key.
type looseIndex struct {
	columns []*column
	// unread are objects that could not be read: whatever they hold counts as
	// everything.
	unread int
}

func (r *retention) openLoose(ctx context.Context) (*looseIndex, error) {
	objects, err := r.looseObjects(ctx)
	if err != nil {
		return nil, err
	}
	l := &looseIndex{}
	for _, o := range objects {
		s, holds := r.openObject(ctx, o)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s != nil {
			l.columns = append(l.columns, newColumn(s))
		} else if holds {
			l.unread++
		}
	}
	return l, nil
}

// openObject opens the index of a loose object from either copy: a name is
// only ever of one content. Without one, holds says whether it may hold
// records all the same.
func (e *Engine) openObject(ctx context.Context, o looseObject) (s *cold.Segment, holds bool) {
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		if !o.at[c] || e.occupied(ctx, c, o) {
			continue
		}
		s, err := e.indexOf(ctx, c, o.name)
		if err == nil {
			return s, true
		}
		holds = holds || !errors.Is(err, tiering.ErrNotFound) // else it went meanwhile
	}
	return nil, holds
}

// occupied reports whether a copy is the marker of an erase, which holds nothing.
func (e *Engine) occupied(ctx context.Context, c tiering.Copy, o looseObject) bool {
	if o.size[c] > maxMarker {
		return false
	}
	data, err := e.Archive.Bucket(c).Read(ctx, o.name, 0, -1)
	return err == nil && cold.Occupied(data)
}

// older reports whether a loose object holds, or may hold, a record of key from
// before a version.
func (l *looseIndex) older(key tiering.Key, before int64) bool {
	found := l.unread > 0
	for _, c := range l.columns {
		for _, e := range c.of(key) {
			found = found || e.Version < before
		}
	}
	return found
}
