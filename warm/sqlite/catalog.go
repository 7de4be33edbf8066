package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/internal/column"
)

// StartSegment implements warm.Catalog. A name that was used before fails.
func (s *Store) StartSegment(ctx context.Context, info tiering.SegmentInfo) error {
	ranges, err := json.Marshal(info.Ranges)
	if err != nil {
		return err
	}
	return s.change(ctx, func(t *txn) error {
		if err := t.holds(info.Owner, info.Token); err != nil {
			return err
		}
		started := info.Started
		if started.IsZero() {
			started = t.now
		}
		_, err := t.exec(`INSERT INTO segment (name, tenant, state, token, size, raw_size, sha256, count, min_time, max_time, ranges, copy0, copy1, started, owner, fence)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce((SELECT value FROM meta WHERE name = 'erase_fence'), 0))`,
			info.Name, info.Tenant, string(tiering.SegmentStarted), info.Token, info.Size, info.RawSize, column.DigestBytes(info.SHA256), info.Count,
			column.Nanos(info.MinTime), column.Nanos(info.MaxTime), string(ranges), column.CopyText(info.Copies[0]), column.CopyText(info.Copies[1]), column.Micros(started), info.Owner)
		if resultCode(err) == codeConstraint {
			return tiering.Errorf(tiering.CodeVersionConflict, "segment %s was started before: names never repeat", info.Name)
		}
		return err
	})
}

// FinishSegment implements warm.Catalog.
func (s *Store) FinishSegment(ctx context.Context, info tiering.SegmentInfo, locations []tiering.Location, reader string, pos int64) error {
	f, err := newFinish(info, locations)
	if err != nil {
		return err
	}
	return s.change(ctx, func(t *txn) error {
		if err := t.finish(f); err != nil || reader == "" {
			return err
		}
		return t.setPosition(reader, pos)
	})
}

// finish is a segment that is to be finished, with what of it is stored encoded.
type finish struct {
	info      tiering.SegmentInfo
	locations []tiering.Location
	ranges    string
	blocks    [][]byte // of each location
}

func newFinish(info tiering.SegmentInfo, locations []tiering.Location) (finish, error) {
	f := finish{info: info, locations: locations, blocks: make([][]byte, len(locations))}
	ranges, err := json.Marshal(info.Ranges)
	if err != nil {
		return f, err
	}
	f.ranges = string(ranges)
	for i, l := range locations {
		f.blocks[i] = encodeBlocks(l.Blocks)
	}
	return f, nil
}

// finish makes a started segment finished, with its locations.
func (t *txn) finish(f finish) error {
	info := &f.info
	if err := t.holds(info.Owner, info.Token); err != nil {
		return err
	}
	n, err := t.exec(`UPDATE segment SET state = ?, size = ?, raw_size = ?, sha256 = ?, count = ?, min_time = ?, max_time = ?, ranges = ?, copy0 = ?, copy1 = ?
		WHERE name = ? AND token = ? AND state = 'started'`,
		string(tiering.SegmentFinished), info.Size, info.RawSize, column.DigestBytes(info.SHA256), info.Count, column.Nanos(info.MinTime), column.Nanos(info.MaxTime),
		f.ranges, column.CopyText(info.Copies[0]), column.CopyText(info.Copies[1]), info.Name, info.Token)
	if err != nil {
		return err
	}
	if n == 0 {
		return tiering.Errorf(tiering.CodeFenced, "segment %s is not started under token %d", info.Name, info.Token)
	}
	if err := t.unfenced(info.Name); err != nil {
		return err
	}
	return t.locate(f)
}

const (
	insertLocation = `INSERT INTO location (tenant, namespace, id, segment, min_version, max_version, min_time, max_time, blocks) VALUES `
	locationRow    = `(?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// locate adds the locations of a segment.
func (t *txn) locate(f finish) error {
	rows := t.rows(insertLocation, locationRow)
	for i, l := range f.locations {
		err := rows.add(l.Key.Tenant, l.Key.Namespace, []byte(l.Key.ID), f.info.Name,
			l.MinVersion, l.MaxVersion, column.Nanos(l.MinTime), column.Nanos(l.MaxTime), f.blocks[i])
		if err != nil {
			return err
		}
	}
	return rows.flush()
}

// AbandonSegment implements warm.Catalog. A finished segment stays.
func (s *Store) AbandonSegment(ctx context.Context, name string) error {
	return s.change(ctx, func(t *txn) error {
		_, err := t.exec(`DELETE FROM segment WHERE name = ? AND state = 'started'`, name)
		return err
	})
}

// SetCopy implements warm.Catalog.
func (s *Store) SetCopy(ctx context.Context, name string, c tiering.Copy, state tiering.CopyState) error {
	query := `UPDATE segment SET copy0 = ? WHERE name = ?`
	if c == tiering.Backup {
		query = `UPDATE segment SET copy1 = ? WHERE name = ?`
	}
	return s.change(ctx, func(t *txn) error {
		n, err := t.exec(query, string(state), name)
		if err == nil && n == 0 {
			err = tiering.Errorf(tiering.CodeNotFound, "there is no segment %s", name)
		}
		return err
	})
}

const segmentColumns = `name, tenant, state, token, size, raw_size, sha256, count, min_time, max_time, ranges, copy0, copy1, started, owner, deleting`

func scanSegment(v []driver.Value) (info tiering.SegmentInfo, err error) {
	info = tiering.SegmentInfo{
		Name: text(v[0]), Tenant: text(v[1]), State: tiering.SegmentState(text(v[2])), Token: num(v[3]), Size: num(v[4]), RawSize: num(v[5]),
		Count: num(v[7]), MinTime: column.NanoTime(num(v[8])), MaxTime: column.NanoTime(num(v[9])),
		Copies:  [2]tiering.CopyState{tiering.CopyState(text(v[11])), tiering.CopyState(text(v[12]))},
		Started: column.Time(num(v[13])), Owner: text(v[14]), Deleting: column.Time(num(v[15])),
	}
	copy(info.SHA256[:], blob(v[6]))
	return info, json.Unmarshal([]byte(text(v[10])), &info.Ranges)
}

// Segment implements warm.Catalog.
func (s *Store) Segment(ctx context.Context, name string) (info tiering.SegmentInfo, ok bool, err error) {
	err = s.reader(ctx, func(c *conn) error {
		return c.each(ctx, `SELECT `+segmentColumns+` FROM segment WHERE name = ?`, []any{name}, func(v []driver.Value) (err error) {
			info, err = scanSegment(v)
			ok = err == nil
			return err
		})
	})
	return info, ok && err == nil, err
}

// Segments implements warm.Catalog.
func (s *Store) Segments(ctx context.Context, tenant string, state tiering.SegmentState, after string, limit int) (out []tiering.SegmentInfo, err error) {
	err = s.reader(ctx, func(c *conn) error {
		return c.each(ctx, `SELECT `+segmentColumns+` FROM segment WHERE name > ? AND (?2 = '' OR tenant = ?2) AND (?3 = '' OR state = ?3) ORDER BY name LIMIT ?4`,
			[]any{after, tenant, string(state), int64(limit)}, func(v []driver.Value) error {
				info, err := scanSegment(v)
				out = append(out, info)
				return err
			})
	})
	return out, err
}

// Locations implements warm.Catalog.
func (s *Store) Locations(ctx context.Context, key tiering.Key) (out []tiering.Location, err error) {
	err = s.reader(ctx, func(c *conn) error {
		return c.each(ctx, `SELECT l.segment, l.min_version, l.max_version, l.min_time, l.max_time, l.blocks FROM location l JOIN segment g ON g.name = l.segment
			WHERE l.tenant = ? AND l.namespace = ? AND l.id = ? AND g.state = 'finished' ORDER BY l.max_version DESC, l.segment DESC`, keyArgs(key),
			func(v []driver.Value) error {
				l, err := scanLocation(key, v)
				out = append(out, l)
				return err
			})
	})
	return out, err
}

// LocationsOf implements warm.Catalog.
func (s *Store) LocationsOf(ctx context.Context, keys []tiering.Key) (map[tiering.Key][]tiering.Location, error) {
	out := make(map[tiering.Key][]tiering.Location, len(keys))
	for _, k := range keys {
		of, err := s.Locations(ctx, k)
		if err != nil {
			return nil, err
		}
		if len(of) > 0 {
			out[k] = of
		}
	}
	return out, nil
}

// scanLocation reads segment, min_version, max_version, min_time, max_time and
// blocks.
func scanLocation(key tiering.Key, v []driver.Value) (l tiering.Location, err error) {
	l = tiering.Location{Key: key, Segment: text(v[0]), MinVersion: num(v[1]), MaxVersion: num(v[2]), MinTime: column.NanoTime(num(v[3])), MaxTime: column.NanoTime(num(v[4]))}
	l.Blocks, err = decodeBlocks(v[5])
	return l, err
}
