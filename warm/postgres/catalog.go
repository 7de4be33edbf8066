package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/internal/column"
)

const insertSegment = `INSERT INTO segment (name, tenant, state, owner, token, size, raw_size, sha256, count, min_time, max_time, ranges, copy0, copy1, started, fence)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, coalesce((SELECT number FROM meta WHERE name = 'erase_fence'), 0))`

func (t *txn) insertSegment(info *tiering.SegmentInfo, state tiering.SegmentState, ranges string) error {
	started := info.Started
	if started.IsZero() {
		started = t.now
	}
	_, err := t.exec(insertSegment, info.Name, info.Tenant, string(state), info.Owner, info.Token, info.Size, info.RawSize, column.DigestBytes(info.SHA256), info.Count,
		column.Nanos(info.MinTime), column.Nanos(info.MaxTime), ranges, column.CopyText(info.Copies[0]), column.CopyText(info.Copies[1]), column.Micros(started))
	return err
}

// StartSegment implements warm.Catalog. A name that was used before fails.
func (s *Store) StartSegment(ctx context.Context, info tiering.SegmentInfo) error {
	ranges, err := json.Marshal(info.Ranges)
	if err != nil {
		return err
	}
	return s.write(ctx, func(t *txn) error {
		// The fence is read under its lock, so that no step of an erasure comes
		// between the look and the commit.
		if err := t.lockFence(false); err != nil {
			return err
		}
		if err := errors.Join(t.fenced(), t.holds(info.Owner, info.Token)); err != nil {
			return err
		}
		err := t.insertSegment(&info, tiering.SegmentStarted, string(ranges))
		if violates(err, "segment_pkey") {
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
	return s.write(ctx, func(t *txn) error {
		if err := t.finish(f); err != nil || reader == "" {
			return err
		}
		_, err := t.exec(setPosition, reader, pos)
		return err
	})
}

// finish is a segment that is to be finished, with what of it is stored as JSON.
type finish struct {
	info      tiering.SegmentInfo
	locations []tiering.Location
	ranges    string
	blocks    []string // of each location
}

func newFinish(info tiering.SegmentInfo, locations []tiering.Location) (finish, error) {
	f := finish{info: info, locations: locations, blocks: make([]string, len(locations))}
	ranges, err := json.Marshal(info.Ranges)
	if err != nil {
		return f, err
	}
	f.ranges = string(ranges)
	for i, l := range locations {
		b, err := json.Marshal(l.Blocks)
		if err != nil {
			return f, err
		}
		f.blocks[i] = string(b)
	}
	return f, nil
}

// finish makes a started segment finished, with its locations.
func (t *txn) finish(f finish) error {
	if err := t.lockFence(false); err != nil {
		return err
	}
	info := &f.info
	if err := errors.Join(t.fenced(), t.holds(info.Owner, info.Token)); err != nil {
		return err
	}
	n, err := t.exec(`UPDATE segment SET state = 'finished', size = $3, raw_size = $4, sha256 = $5, count = $6, min_time = $7, max_time = $8, ranges = $9, copy0 = $10, copy1 = $11
		WHERE name = $1 AND token = $2 AND state = 'started'`, info.Name, info.Token, info.Size, info.RawSize, column.DigestBytes(info.SHA256), info.Count,
		column.Nanos(info.MinTime), column.Nanos(info.MaxTime), f.ranges, column.CopyText(info.Copies[0]), column.CopyText(info.Copies[1]))
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

// locatedAtOnce is how many locations one statement adds, so that none runs for as
// long as its timeout where a segment holds many keys.
const locatedAtOnce = 5000

// locate adds the locations of a segment.
func (t *txn) locate(f finish) error {
	for first := 0; first < len(f.locations); first += locatedAtOnce {
		end := min(first+locatedAtOnce, len(f.locations))
		if err := t.locateSome(f.info.Name, f.locations[first:end], f.blocks[first:end]); err != nil {
			return err
		}
	}
	return nil
}

func (t *txn) locateSome(segment string, locations []tiering.Location, blocks []string) error {
	n := len(locations)
	tenants, names, ids := make([]string, n), make([]string, n), make([][]byte, n)
	low, high, from, to := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i, l := range locations {
		tenants[i], names[i], ids[i] = l.Key.Tenant, l.Key.Namespace, []byte(l.Key.ID)
		low[i], high[i], from[i], to[i] = l.MinVersion, l.MaxVersion, column.Nanos(l.MinTime), column.Nanos(l.MaxTime)
	}
	_, err := t.exec(`INSERT INTO location (tenant, namespace, id, segment, min_version, max_version, min_time, max_time, blocks)
		SELECT t.tenant, t.namespace, t.id, $1, t.low, t.high, t.since, t.until, t.blocks
		FROM unnest($2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[]) t(tenant, namespace, id, low, high, since, until, blocks)`,
		segment, tenants, names, ids, low, high, from, to, blocks)
	return err
}

// AbandonSegment implements warm.Catalog. A finished segment stays.
func (s *Store) AbandonSegment(ctx context.Context, name string) error {
	_, err := s.change(ctx, `DELETE FROM segment WHERE name = $1 AND state = 'started'`, name)
	return err
}

// SetCopy implements warm.Catalog.
func (s *Store) SetCopy(ctx context.Context, name string, c tiering.Copy, state tiering.CopyState) error {
	query := `UPDATE segment SET copy0 = $1 WHERE name = $2`
	if c == tiering.Backup {
		query = `UPDATE segment SET copy1 = $1 WHERE name = $2`
	}
	n, err := s.change(ctx, query, string(state), name)
	if err == nil && n == 0 {
		err = tiering.Errorf(tiering.CodeNotFound, "there is no segment %s", name)
	}
	return err
}

const segmentColumns = `name, tenant, state, token, size, raw_size, sha256, count, min_time, max_time, ranges, copy0, copy1, started, owner, deleting`

func scanSegment(row pgx.Rows) (info tiering.SegmentInfo, err error) {
	var state, copy0, copy1, ranges string
	var sha []byte
	var from, to, started, deleting int64
	if err := row.Scan(&info.Name, &info.Tenant, &state, &info.Token, &info.Size, &info.RawSize, &sha, &info.Count, &from, &to, &ranges, &copy0, &copy1, &started, &info.Owner, &deleting); err != nil {
		return info, err
	}
	info.State, info.Copies = tiering.SegmentState(state), [2]tiering.CopyState{tiering.CopyState(copy0), tiering.CopyState(copy1)}
	info.MinTime, info.MaxTime, info.Started, info.Deleting = column.NanoTime(from), column.NanoTime(to), column.Time(started), column.Time(deleting)
	copy(info.SHA256[:], sha)
	return info, json.Unmarshal([]byte(ranges), &info.Ranges)
}

// Segment implements warm.Catalog.
func (s *Store) Segment(ctx context.Context, name string) (info tiering.SegmentInfo, ok bool, err error) {
	all, err := s.segments(ctx, `name = $1`, name)
	if err != nil || len(all) == 0 {
		return info, false, err
	}
	return all[0], true, nil
}

// Segments implements warm.Catalog.
func (s *Store) Segments(ctx context.Context, tenant string, state tiering.SegmentState, after string, limit int) ([]tiering.SegmentInfo, error) {
	return s.segments(ctx, `name > $1 AND ($2 = '' OR tenant = $2) AND ($3 = '' OR state = $3) ORDER BY name LIMIT $4`, after, tenant, string(state), limit)
}

func (s *Store) segments(ctx context.Context, where string, args ...any) (out []tiering.SegmentInfo, err error) {
	err = s.read(ctx, func(q querier) error {
		out = nil
		return each(ctx, q, `SELECT `+segmentColumns+` FROM segment WHERE `+where, args, func(row pgx.Rows) error {
			info, err := scanSegment(row)
			out = append(out, info)
			return err
		})
	})
	return out, err
}

// Locations implements warm.Catalog.
func (s *Store) Locations(ctx context.Context, key tiering.Key) ([]tiering.Location, error) {
	of, err := s.LocationsOf(ctx, []tiering.Key{key})
	return of[key], err
}

// LocationsOf implements warm.Catalog.
func (s *Store) LocationsOf(ctx context.Context, keys []tiering.Key) (out map[tiering.Key][]tiering.Location, err error) {
	tenants, names, ids := keyArrays(keys)
	err = s.read(ctx, func(q querier) error {
		out = make(map[tiering.Key][]tiering.Location, len(keys))
		return each(ctx, q, `SELECT t.n, l.segment, l.min_version, l.max_version, l.min_time, l.max_time, l.blocks
			FROM unnest($1::text[], $2::text[], $3::bytea[]) WITH ORDINALITY t(tenant, name, id, n)
			JOIN location l ON l.tenant = t.tenant AND l.namespace = t.name AND l.id = t.id JOIN segment g ON g.name = l.segment
			WHERE g.state = 'finished' ORDER BY t.n, l.max_version DESC, l.segment DESC`, []any{tenants, names, ids}, func(row pgx.Rows) error {
			var n, from, to int64
			var l tiering.Location
			var blocks string
			if err := row.Scan(&n, &l.Segment, &l.MinVersion, &l.MaxVersion, &from, &to, &blocks); err != nil {
				return err
			}
			l.Key, l.MinTime, l.MaxTime = keys[n-1], column.NanoTime(from), column.NanoTime(to)
			err := json.Unmarshal([]byte(blocks), &l.Blocks)
			out[l.Key] = append(out[l.Key], l)
			return err
		})
	})
	return out, err
}

// keyArrays are the parts of keys, one array each.
func keyArrays(keys []tiering.Key) (tenants, names []string, ids [][]byte) {
	tenants, names, ids = make([]string, len(keys)), make([]string, len(keys)), make([][]byte, len(keys))
	for i, k := range keys {
		tenants[i], names[i], ids[i] = k.Tenant, k.Namespace, []byte(k.ID)
	}
	return tenants, names, ids
}
