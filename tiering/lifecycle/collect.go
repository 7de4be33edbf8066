package lifecycle

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

const (
	// strangerAge is how old an object that the catalog does not know has to
	// be, by its name and by its bucket, before it is even looked at.
	strangerAge = 24 * time.Hour
	// strangersEvery is how often the buckets are listed for strangers.
	strangersEvery = time.Hour
	// jobsPerRun bounds how many rewrites come before what is due is collected.
	jobsPerRun = 16
)

// collection is one run of merge and collect: one time, the policies by which it
// chooses what to look into, and what it did. What it drops is judged by those in
// force at the moment.
type collection struct {
	*sweeper
	lease  warm.Lease
	epoch  string
	report *GCReport
	ahead  time.Duration           // how far ahead of now the report looks
	all    bool                    // somebody asked: nothing is put off
	dry    bool                    // nothing is changed
	gone   map[tiering.Key][]int64 // what a dry run would have dropped by now
	budget int                     // objects that may still be deleted
}

func (e *Engine) newCollection(now time.Time, report *GCReport) *collection {
	e.merges.remember()
	return &collection{
		sweeper: e.newSweeper(now), report: report, budget: e.CollectCap,
	}
}

// judging starts a judgement on some segments.
func (g *collection) judging() *retention {
	return &retention{sweeper: g.sweeper, ahead: g.ahead, gone: g.gone}
}

// run rewrites what is to be rewritten and collects what may go. more is true
// when there is work left for another run.
func (g *collection) run(ctx context.Context, l warm.Lease) (more bool, err error) {
	g.lease = l
	if g.epoch, err = g.Warm.Epoch(ctx); err != nil {
		return false, err
	}
	// A bucket that cannot be listed whole ends the run before it changes
	// anything.
	loose, err := g.listing(ctx)
	if err != nil {
		return false, err
	}
	if !g.dry {
		if err := g.sweepIntents(ctx, l); err != nil {
			return false, err
		}
	}
	jobs, err := g.jobs(ctx)
	if err != nil {
		return false, err
	}
	for i, j := range jobs {
		if i == jobsPerRun && !g.all {
			more = true
			break
		}
		if err := g.carryOut(ctx, j); err != nil {
			return false, err
		}
	}
	if err := g.collectReplaced(ctx); err != nil {
		return false, err
	}
	return more || g.budget <= 0, g.collectStrangers(ctx, loose)
}

// carryOut does a job, without those of its segments that make it fail.
func (g *collection) carryOut(ctx context.Context, j job) error {
	for {
		err := g.do(ctx, j)
		of, ok := errors.AsType[*sourceError](err)
		if !ok || len(j.sources) <= 2 {
			return g.fails(ctx, j.sources[0].Name, err)
		}
		if err := g.fails(ctx, of.name, err); err != nil {
			return err
		}
		j.sources = slices.DeleteFunc(slices.Clone(j.sources), func(s tiering.SegmentInfo) bool { return s.Name == of.name })
	}
}

// do carries out a job, or says what it would do.
func (g *collection) do(ctx context.Context, j job) error {
	if g.dry {
		return g.pretend(ctx, j)
	}
	if err := g.renew(ctx); err != nil {
		return err
	}
	return g.rewrite(ctx, j)
}

// pretend notes what a job would do.
func (g *collection) pretend(ctx context.Context, j job) error {
	v, entries, err := g.inspect(ctx, j)
	if err != nil {
		return err
	}
	if g.gone == nil {
		g.gone = map[tiering.Key][]int64{}
	}
	for i := range v.dropped {
		g.gone[entries[i].Key] = append(g.gone[entries[i].Key], entries[i].Version)
	}
	g.report.planned(j, v, len(entries))
	g.report.NextVersions += v.next
	return nil
}

// renew keeps the lease through a long run. A run whose lease went to another
// daemon ends.
func (g *collection) renew(ctx context.Context) error {
	l, ok, err := g.Warm.Acquire(ctx, g.lease.Name, g.Holder, g.LeaseTTL)
	if err == nil && (!ok || l.Token != g.lease.Token) {
		err = tiering.Errorf(tiering.CodeUnavailable, "the lease of %s went to %s", g.lease.Name, l.Holder)
	}
	return err
}

// collectReplaced deletes the objects of segments that the catalog gave up a
// grace period ago, and then forgets them. One that fails does not stop the
// others.
func (g *collection) collectReplaced(ctx context.Context) error {
	var failed error
	err := g.eachSegment(ctx, "", tiering.SegmentDeleting, func(s tiering.SegmentInfo) error {
		if g.now.Before(s.Deleting.Add(g.Grace)) {
			g.report.Waiting++
			g.report.WaitingBytes += 2 * s.Size
			return nil
		}
		if g.budget <= 0 {
			return nil
		}
		g.budget -= 2
		if g.dry {
			g.report.deleted(2, 2*s.Size)
			return nil
		}
		err := g.collectSegment(ctx, s)
		g.Recorder.Moved(tiering.MoveCollect, err == nil, err)
		if err == nil {
			g.report.deleted(2, 2*s.Size)
		}
		failed = errors.Join(failed, err)
		return ctx.Err()
	})
	return errors.Join(err, failed)
}

// collectSegment deletes both objects of a segment and forgets its row. The name
// of one that was given up before it was finished is occupied: its upload may
// still be on its way, and what it brings may be erased by then, or be older
// than a deletion that retention let go. The marker goes with the strangers.
func (g *collection) collectSegment(ctx context.Context, s tiering.SegmentInfo) error {
	keys, err := g.Warm.KeysIn(ctx, s.Name, tiering.Key{}, 1)
	if err != nil {
		return err
	}
	if len(keys) > 0 {
		return tiering.Errorf(tiering.CodeCorrupt, "segment %s is deleting, and the catalog still says that it holds %s", s.Name, keys[0])
	}
	if s.SHA256 == (tiering.Digest{}) {
		errs := g.Archive.OccupyBoth(ctx, s.Name)
		if err := errors.Join(errs[0], errs[1]); err != nil {
			return err
		}
		return g.Warm.ForgetSegment(ctx, s.Name)
	}
	for _, c := range bothCopies() {
		if err := g.Archive.Bucket(c).Delete(ctx, s.Name); err != nil {
			return tiering.Wrap(err, "delete "+s.Name+" in "+c.String(), tiering.Cold, tiering.Key{})
		}
	}
	return g.Warm.ForgetSegment(ctx, s.Name)
}

// listing looks for objects beside the finished segments, when it is time to.
func (g *collection) listing(ctx context.Context) ([]looseObject, error) {
	if !g.all && g.now.Before(g.merges.listed.Add(strangersEvery)) {
		return nil, nil
	}
	objects, err := g.looseObjects(ctx)
	if err == nil && !g.dry {
		g.merges.listed = g.now
	}
	return objects, err
}

// collectStrangers deletes the objects that the catalog does not know, if it is
// certain that nothing is lost with them. The others are reported.
func (g *collection) collectStrangers(ctx context.Context, objects []looseObject) error {
	for _, o := range objects {
		if o.state != "" {
			continue
		}
		why, err := g.keepStranger(ctx, o)
		if err != nil {
			return err
		}
		if why == "" && g.budget <= 0 {
			why = "this run has deleted as many objects as it may"
		}
		if why == "" && !g.dry {
			err = g.deleteStranger(ctx, o)
			g.Recorder.Moved(tiering.MoveCollect, err == nil, err)
		}
		if err != nil {
			return err
		}
		g.stranger(o, why)
	}
	return nil
}

// stranger reports one.
func (g *collection) stranger(o looseObject, why string) {
	s := Leftover{Name: o.name, Kept: why}
	for _, c := range bothCopies() {
		if o.at[c] {
			s.Copies = append(s.Copies, c.String())
			s.Size += o.size[c]
		}
	}
	if why == "" {
		g.budget -= len(s.Copies)
		g.report.deleted(int64(len(s.Copies)), s.Size)
	}
	g.report.Strangers = append(g.report.Strangers, s)
}

// deleteStranger takes away what was listed. What holds records is not deleted but
// occupied, and the marker has its turn a day later: an erase may have made one there
// since, which must not go with them. A marker that is old stays what it is.
func (g *collection) deleteStranger(ctx context.Context, o looseObject) error {
	for _, c := range bothCopies() {
		if !o.at[c] {
			continue
		}
		bucket := g.Archive.Bucket(c)
		info, err := bucket.Stat(ctx, o.name)
		switch {
		case errors.Is(err, cold.ErrNotExist) || err == nil && info.ModTime.After(o.seen[c]):
			continue // it went, or was made anew
		case err == nil && g.occupied(ctx, c, o):
			err = bucket.Delete(ctx, o.name)
		case err == nil:
			err = g.Archive.Occupy(ctx, c, o.name)
		}
		if err != nil {
			return tiering.Wrap(err, "delete "+o.name+" in "+c.String(), tiering.Cold, tiering.Key{})
		}
	}
	return nil
}

// keepStranger says why an object that the catalog does not know must stay, ""
// when it may go. Age alone never decides: it must be of this life of the
// store, and everything that it covers must be covered by segments that the
// catalog does know. Else the catalog may be what is wrong.
func (g *collection) keepStranger(ctx context.Context, o looseObject) (string, error) {
	named, ok := o.named()
	if !ok {
		return "tierd did not make it", nil
	}
	if age := g.now.Sub(o.youngest(named)); age < strangerAge {
		return "it is younger than " + strangerAge.String(), nil
	}
	s, holds := g.openObject(ctx, o)
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if s == nil {
		if holds {
			return "it cannot be read", nil
		}
		return "", nil // markers of erases, long after any upload could land
	}
	if s.Epoch() != g.epoch {
		return "it is of another life of the store, " + s.Epoch(), nil
	}
	covered, err := g.covers(ctx, s)
	if err != nil {
		return "", err
	}
	if !covered {
		return "it covers changes that no segment of the catalog does: was the store set back?", nil
	}
	_, known, err := g.Warm.Segment(ctx, o.name)
	if known {
		return "the catalog knows it by now", err
	}
	return "", err
}

// covers reports whether finished segments cover all that s does.
func (g *collection) covers(ctx context.Context, s *cold.Segment) (bool, error) {
	var c composition
	err := g.eachSegment(ctx, s.Tenant(), tiering.SegmentFinished, func(info tiering.SegmentInfo) error {
		c.sources = append(c.sources, info)
		return nil
	})
	have := c.covered()
	for _, want := range s.Ranges() {
		whole := false
		for _, r := range have {
			whole = whole || r.From <= want.From && want.To <= r.To
		}
		if !whole {
			return false, err
		}
	}
	return true, err
}
