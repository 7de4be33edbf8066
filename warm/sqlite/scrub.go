package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tierd/tierd/tiering"
)

// Scrub implements warm.Eraser. secure_delete has overwritten what was deleted
// where it lay, but copies stay behind where rows were moved from page to page,
// and in the log: the file is written anew and the log is cut to nothing.
// Writers wait for as long as that takes.
func (s *Store) Scrub(ctx context.Context) error {
	return s.quiet(ctx, func(w *writer) error {
		// The new copy is made in a temporary file: in memory it would take as
		// much as the store is large.
		if err := w.script(`PRAGMA temp_store = FILE`); err != nil {
			return err
		}
		err := w.script(`VACUUM`)
		return errors.Join(err, w.script(`PRAGMA temp_store = MEMORY`))
	})
}

// truncateLog writes the log back into the file and cuts it to nothing.
func (s *Store) truncateLog(ctx context.Context) error {
	return s.quiet(ctx, func(*writer) error { return nil })
}

// quiet runs fn while nobody writes, and cuts the log when nobody reads
// either: a reader needs what it began with.
func (s *Store) quiet(ctx context.Context, fn func(*writer) error) error {
	w, err := s.takeWriter(ctx)
	if err != nil {
		return err
	}
	defer func() { s.writer <- w }()
	if err := fn(w); err != nil {
		return s.explain(err)
	}
	for range cap(s.readers) {
		select {
		case c := <-s.readers:
			defer func() { s.readers <- c }()
		case <-s.closing:
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if _, err := w.number(`PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		return s.explain(err)
	}
	info, err := os.Stat(s.path + "-wal")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Size() > 0:
		return &tiering.Error{Tier: tiering.Warm, Code: tiering.CodeUnavailable,
			Detail: fmt.Sprintf("the log of %s still has %d bytes: another process reads the file", s.path, info.Size())}
	}
	return nil
}
