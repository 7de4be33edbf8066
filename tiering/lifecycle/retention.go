package lifecycle

import (
	"context"
	"slices"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Why a record leaves cold.
const (
	dropHistory   = "history"   // superseded, and covered by neither keep_versions nor keep_for
	dropDeleted   = "deleted"   // a version of a key that was deleted, keep_for has passed
	dropTombstone = "tombstone" // a deletion that no older record is left of
	dropTouch     = "touch"     // a touch or pin of a version that left
)

// retention judges which records of some segments still have to be kept. It
// asks everything that knows of a key: the head and the version rows in warm,
// and the indexes of all other segments that hold it. When it cannot know, the
// record is kept.
//
// Versions of a key leave oldest first, so that nobody asking for the one that
// stood at some time is ever given an older one. A deletion leaves only when no
// older record of its key is left in any object of either bucket, those that
// wait for their end included: else a rebuild would find the older one and
// bring the key back.
type retention struct {
	*sweeper
	// ahead is how far beyond now the verdict counts what comes due.
	ahead time.Duration
	// gone holds what a dry run has dropped so far; nil otherwise.
	gone map[tiering.Key][]int64

	columns map[string]*column // of other finished segments
	loose   *looseIndex        // of objects beside the finished segments, once asked for
}

// verdict is what retention says about a list of entries.
type verdict struct {
	dropped map[int]string // the index of each entry that may go, and why
	bytes   int64          // of the bodies that may go
	all     int64          // of all bodies
	since   time.Time      // when the first of those that may go became due
	// again is when something that is kept may come due, as far as can be told
	// now; zero: not within a day.
	again time.Time
	next  int64 // versions that come due within ahead
	// judged is what decided of the keys of which something may go.
	judged map[tiering.Key]covering
}

// judge looks at entries, which are all that the segments sources hold, in
// order of key, version and revision. Keys must not go back from call to call.
func (r *retention) judge(ctx context.Context, sources []string, entries []cold.Entry) (verdict, error) {
	v := verdict{dropped: map[int]string{}, judged: map[tiering.Key]covering{}}
	for start := 0; start < len(entries); {
		end := start + 1
		for end < len(entries) && entries[end].Key == entries[start].Key {
			end++
		}
		if err := r.judgeKey(ctx, sources, entries[start:end], start, &v); err != nil {
			return v, tiering.Wrap(err, "retention", "", entries[start].Key)
		}
		start = end
	}
	return v, nil
}

func (r *retention) judgeKey(ctx context.Context, sources []string, group []cold.Entry, at int, v *verdict) error {
	p, ok, err := r.policy(ctx, group[0].Key)
	if err != nil {
		return err
	}
	first := group[0].At
	for _, e := range group {
		v.all += e.Size
		if e.At.Before(first) {
			first = e.At
		}
	}
	if !ok {
		return nil
	}
	// A version is due KeepFor after it was superseded, which is after it was
	// made: most keys need no look-up at all.
	if due := first.Add(p.KeepFor.Std()); due.After(r.now.Add(r.ahead)) {
		v.comes(due)
		return nil
	}
	k, err := r.known(ctx, group, sources)
	if err != nil {
		return err
	}
	return r.judgeVersions(ctx, p, group, k, at, v)
}

// comes notes that something may come due at t.
func (v *verdict) comes(t time.Time) {
	if v.again.IsZero() || t.Before(v.again) {
		v.again = t
	}
}

// version is what is known of one version of a key, wherever it lies.
type version struct {
	number int64
	at     time.Time
	op     tiering.Op
	here   bool // one of the entries under judgement
	beside bool // in a segment that is not under judgement
	row    bool // in warm
	ghost  bool // touched, but nowhere to be found: it left before
	// listed: the catalog or warm knows it. One that is not is no part of the
	// key's history any more: a rebuild left it out, or it is an earlier owner's,
	// and the key was erased after him. Nobody reads it, and it counts for none;
	// but a rebuild may, so that it leaves in its turn.
	listed bool
}

// known is what is known of one key.
type known struct {
	head     warm.Head
	versions []version // by number
	// forgotten: warm does not know the key, because all that is left of it is
	// an earlier owner's. What he left is deleted.
	forgotten bool
	// touched holds the versions that touches and pins beside are of.
	touched []int64
}

// known gathers every version of a key. Warm comes first: a version that is
// retired while this runs is in a segment by then.
func (r *retention) known(ctx context.Context, group []cold.Entry, sources []string) (known, error) {
	key := group[0].Key
	byNumber := map[int64]*version{}
	at := func(number int64) *version {
		if byNumber[number] == nil {
			byNumber[number] = &version{number: number}
		}
		return byNumber[number]
	}
	note := func(number int64, op tiering.Op, t time.Time) *version {
		v := at(number)
		v.op, v.at = op, t
		return v
	}
	if err := r.eachRow(ctx, key, func(row warm.Version) { note(row.Version, row.Op, row.At).row = true }); err != nil {
		return known{}, err
	}
	locs, err := r.Warm.Locations(ctx, key)
	if err != nil {
		return known{}, err
	}
	var k known
	var mine []versions
	for _, l := range locs {
		if slices.Contains(sources, l.Segment) {
			mine = append(mine, versions{l.MinVersion, l.MaxVersion})
			continue
		}
		c, err := r.columnOf(ctx, l.Segment)
		if err != nil {
			return known{}, err
		}
		entries := c.of(key)
		if len(entries) == 0 {
			return known{}, tiering.Errorf(tiering.CodeCorrupt, "the catalog says that %s holds the key", l.Segment)
		}
		for _, e := range entries {
			switch {
			case slices.Contains(r.gone[key], e.Version):
			case !e.Op.Versioned():
				k.touched = append(k.touched, e.Version)
			default:
				v := note(e.Version, e.Op, e.At)
				v.beside, v.listed = true, v.listed || versions{l.MinVersion, l.MaxVersion}.covers(e.Version)
			}
		}
	}
	for _, e := range group {
		if e.Op.Versioned() {
			v := note(e.Version, e.Op, e.At)
			v.here, v.listed = true, v.listed || slices.ContainsFunc(mine, func(l versions) bool { return l.covers(e.Version) })
		}
	}
	for _, e := range group {
		if v := at(e.Version); !e.Op.Versioned() && v.op == 0 {
			v.ghost, v.at = true, e.At
		}
	}
	cur, err := r.Warm.Head(ctx, key)
	if err != nil {
		return known{}, err
	}
	if k.head = cur.Head; k.head.Version > 0 {
		if byNumber[k.head.Version] == nil || byNumber[k.head.Version].ghost {
			*note(k.head.Version, k.head.Op, k.head.UpdatedAt) = version{number: k.head.Version, op: k.head.Op, at: k.head.UpdatedAt}
		}
		at(k.head.Version).listed = true
	} else if err := k.forget(byNumber); err != nil {
		return known{}, err
	}
	for _, v := range byNumber {
		k.versions = append(k.versions, *v)
	}
	slices.SortFunc(k.versions, func(a, b version) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	return k, nil
}

// forget makes the head that a key without one had in the end: a deletion. One
// that the catalog lists versions of must have a head.
func (k *known) forget(byNumber map[int64]*version) error {
	var last *version
	for _, v := range byNumber {
		if v.listed {
			return tiering.Errorf(tiering.CodeCorrupt, "warm does not know the key, nor that it was deleted")
		}
		if !v.ghost && (last == nil || v.number > last.number) {
			last = v
		}
	}
	k.forgotten, k.head.Op = true, tiering.OpDelete
	if last != nil && last.op.Deleting() {
		k.head.Version, k.head.UpdatedAt = last.number, last.at
	}
	return nil
}

// eachRow calls fn with every version row of a key.
func (r *retention) eachRow(ctx context.Context, key tiering.Key, fn func(warm.Version)) error {
	for before := int64(0); ; {
		rows, err := r.Warm.Versions(ctx, key, before, walkPage)
		if err != nil {
			return err
		}
		for _, row := range rows {
			before = row.Version
			fn(row)
		}
		if len(rows) < walkPage {
			return nil
		}
	}
}

// judgeVersions walks the versions of a key, oldest first. The first one that
// stays keeps all behind it.
func (r *retention) judgeVersions(ctx context.Context, p tiering.Policy, group []cold.Entry, k known, at int, v *verdict) error {
	gone := map[int64]string{}
	stays, unlisted := false, false // what stays of an earlier version; of one that is not listed
	newer := int64(0)
	for _, ver := range k.versions {
		if ver.listed {
			newer++
		}
	}
	for i, ver := range k.versions {
		if ver.listed {
			newer--
		}
		if !ver.here && !ver.ghost {
			stays = stays || ver.listed
			unlisted = unlisted || !ver.listed
			continue
		}
		a := p.Plan(r.now, k.meta(i, newer))
		collect := a.Move == tiering.MoveCollect && len(a.Blocked) == 0
		switch {
		case collect && !a.Ready(r.now):
			v.comes(a.Due)
			if !ver.ghost && !a.Due.After(r.now.Add(r.ahead)) {
				v.next++
			}
			stays = true
		case !collect || stays || ver.row || unlisted && !ver.ghost && (!ver.listed || ver.op.Deleting()):
			stays = true
		case ver.op.Deleting():
			older, err := r.older(ctx, group, k, ver.number)
			if err != nil {
				return err
			}
			if older {
				v.comes(r.now.Add(r.Grace))
				stays = true
			} else {
				gone[ver.number] = dropTombstone
			}
		case k.head.Op.Deleting() || !ver.listed && !ver.ghost:
			gone[ver.number] = dropDeleted
		default:
			gone[ver.number] = dropHistory
		}
		if gone[ver.number] != "" && (v.since.IsZero() || a.Due.Before(v.since)) {
			v.since = a.Due
		}
		// A copy of it lies beside: that one has its own turn.
		stays = stays || ver.beside
	}
	for i, e := range group {
		why := gone[e.Version]
		if why == "" {
			continue
		}
		if !e.Op.Versioned() {
			why = dropTouch
		}
		v.dropped[at+i] = why
		v.bytes += e.Size
		v.judged[e.Key] = coveringOf(p, k.head)
	}
	return nil
}

// meta is the version at place i as Plan sees it. That of a ghost is as old as
// the version behind it.
func (k known) meta(i int, newer int64) tiering.VersionMeta {
	ver := k.versions[i]
	m := tiering.VersionMeta{
		Version: ver.number, Op: ver.op, Current: ver.number == k.head.Version, UpdatedAt: ver.at,
		Pinned: k.head.Pinned && (ver.listed || ver.ghost), InWarm: ver.row, InCold: true, Copies: 2, Newer: newer,
		KeyDeleted:  k.head.Op.Deleting() || !ver.listed && !ver.ghost,
		EarlierLife: k.head.Version > 0 && ver.at.Before(k.head.CreatedAt),
	}
	if m.Current {
		m.ExpiresAt = k.head.ExpiresAt
		return m
	}
	for _, next := range k.versions[i+1:] {
		if next.listed || !next.ghost && !ver.listed && !ver.ghost {
			m.SupersededAt = next.at
			break
		}
	}
	if m.SupersededAt.IsZero() && k.forgotten {
		m.SupersededAt = ver.at
	}
	if m.SupersededAt.IsZero() {
		// Above the head: warm has lost what it once acknowledged. Nothing is
		// known of how long it has to stay.
		m.Pinned = true
	}
	return m
}

// older reports whether any record of the key from before a deletion is left
// anywhere, where no version beside is. The ones under judgement count too: the
// objects that hold them now outlive the rewrite by the grace period.
func (r *retention) older(ctx context.Context, group []cold.Entry, k known, deletion int64) (bool, error) {
	if group[0].Version < deletion {
		return true, nil
	}
	for _, touched := range k.touched {
		if touched < deletion {
			return true, nil
		}
	}
	if r.loose == nil {
		l, err := r.openLoose(ctx)
		if err != nil {
			return false, err
		}
		r.loose = l
	}
	return r.loose.older(group[0].Key, deletion), nil
}
