package lifecycle

import (
	"context"
	"errors"
	"iter"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// column is the index of one segment, walked once from its first key to its
// last, so that it need not be unpacked as a whole.
type column struct {
	next func() (cold.Entry, bool)
	stop func()
	cur  cold.Entry
	more bool
}

func newColumn(s *cold.Segment) *column {
	c := &column{}
	c.next, c.stop = iter.Pull(s.Index())
	c.cur, c.more = c.next()
	return c
}

// of returns the entries of key. Keys must not go back from call to call.
func (c *column) of(key tiering.Key) []cold.Entry {
	var out []cold.Entry
	for c.more {
		if d := c.cur.Key.Compare(key); d > 0 {
			break
		} else if d == 0 {
			out = append(out, c.cur)
		}
		c.cur, c.more = c.next()
	}
	return out
}

func (r *retention) columnOf(ctx context.Context, name string) (*column, error) {
	if c := r.columns[name]; c != nil {
		return c, nil
	}
	s, err := r.openIndex(ctx, name)
	if err != nil {
		return nil, err
	}
	if r.columns == nil {
		r.columns = map[string]*column{}
	}
	r.columns[name] = newColumn(s)
	return r.columns[name], nil
}

// close ends the walks.
func (r *retention) close() {
	for _, c := range r.columns {
		c.stop()
	}
	if r.loose != nil {
		for _, c := range r.loose.columns {
			c.stop()
		}
	}
}

// openIndex opens the index of a segment from either copy.
func (e *Engine) openIndex(ctx context.Context, name string) (*cold.Segment, error) {
	var failed error
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		s, err := e.indexOf(ctx, c, name)
		if err == nil {
			return s, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// indexOf opens the index of one copy. not_found means that the bucket has no
// such object.
func (e *Engine) indexOf(ctx context.Context, c tiering.Copy, name string) (*cold.Segment, error) {
	b := e.Archive.Bucket(c)
	info, err := b.Stat(ctx, name)
	if errors.Is(err, cold.ErrNotExist) {
		return nil, &tiering.Error{Op: "open", Tier: tiering.Cold, Code: tiering.CodeNotFound, Err: err}
	}
	if err == nil {
		var s *cold.Segment
		if s, err = cold.Survey(ctx, b, name, info.Size); err == nil {
			return s, nil
		}
	}
	return nil, tiering.Wrap(err, "open "+name+" in "+c.String(), tiering.Cold, tiering.Key{})
}
