package lifecycle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// errMovedOn says that a segment is not finished any more: there is nothing to
// check or to repair.
var errMovedOn = errors.New("the segment is not in the catalog any more")

// checkCopy reads one copy of a segment whole, and compares it with the
// catalog; deep also decodes it, down to every record and digest. nil is a
// sound copy. not_found means that the bucket answered and has no such object,
// corrupt that its bytes are not those of the catalog. Other errors say nothing
// about the copy.
func (e *Engine) checkCopy(ctx context.Context, s tiering.SegmentInfo, c tiering.Copy, deep bool) (*cold.Segment, error) {
	data, err := e.Archive.Bucket(c).Read(ctx, s.Name, 0, -1)
	switch {
	case errors.Is(err, cold.ErrNotExist):
		return nil, tiering.Errorf(tiering.CodeNotFound, "the object is gone")
	case err != nil:
		return nil, tiering.Wrap(err, "read "+s.Name+" from "+c.String(), tiering.Cold, tiering.Key{})
	case int64(len(data)) != s.Size:
		return nil, tiering.Errorf(tiering.CodeCorrupt, "the object has %d bytes, the catalog says %d", len(data), s.Size)
	case sha256.Sum256(data) != s.SHA256:
		return nil, tiering.Errorf(tiering.CodeCorrupt, "the object fails its SHA-256")
	case !deep:
		return nil, nil //nolint:nilnil // it was not opened, and it is sound
	}
	seg, err := cold.OpenSegment(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	var records int64
	for _, err := range seg.Records() {
		if err != nil {
			return nil, err
		}
		records++
	}
	if records != s.Count || seg.Tenant() != s.Tenant {
		return nil, tiering.Errorf(tiering.CodeCorrupt, "it holds %d records of tenant %s, the catalog says %d of %s", records, seg.Tenant(), s.Count, s.Tenant)
	}
	return seg, nil
}

// stateOf is what a check says about a copy; known is false when it says
// nothing.
func stateOf(err error) (state tiering.CopyState, known bool) {
	switch tiering.CodeOf(err) {
	case "":
		return tiering.CopyVerified, err == nil
	case tiering.CodeNotFound:
		return tiering.CopyMissing, true
	case tiering.CodeCorrupt, tiering.CodeUnsupported:
		return tiering.CopyBad, true
	}
	return "", false
}

// noteCopy writes a copy's state into the catalog, if it is another.
func (e *Engine) noteCopy(ctx context.Context, s *tiering.SegmentInfo, c tiering.Copy, state tiering.CopyState) error {
	if s.Copies[c] == state {
		return nil
	}
	if err := e.Warm.SetCopy(ctx, s.Name, c, state); err != nil {
		return err
	}
	s.Copies[c] = state
	return nil
}

// repairCopy makes one copy of a finished segment again from the other, which
// is checked down to every record first. Where its name is occupied, or has other
// bytes, the segment moves to another name, with both copies: what lies there is
// never replaced, because nobody can tell whether an erase has occupied the name
// by then.
func (e *Engine) repairCopy(ctx context.Context, s *tiering.SegmentInfo, c tiering.Copy) error {
	err := e.Archive.CopyObject(ctx, tiering.Backup-c, c, s.Name)
	now, ok, askErr := e.Warm.Segment(ctx, s.Name)
	switch {
	case askErr != nil:
		return errors.Join(err, askErr)
	case (!ok || now.State != tiering.SegmentFinished) && tiering.CodeOf(err) != tiering.CodeGone:
		// It was collected meanwhile: what was just written, or still may land,
		// must not be what is left of it.
		return errors.Join(errMovedOn, e.Archive.Occupy(ctx, c, s.Name))
	case !ok || now.State != tiering.SegmentFinished:
		return errMovedOn // it was erased, and its name is occupied
	}
	moved := false
	switch {
	case err == nil:
		err = e.noteCopy(ctx, s, c, tiering.CopyVerified)
	case errors.Is(err, tiering.ErrGone):
		moved, err = true, e.rename(ctx, s.Name)
	case errors.Is(err, tiering.ErrCorrupt):
		moved, err = true, e.leaveName(ctx, s.Name, tiering.Backup-c)
	}
	e.Recorder.CopyRepaired(c, err)
	if moved && err == nil {
		return errMovedOn
	}
	return err
}

// restoreCopies checks both copies of a segment and makes again what is not
// sound, from what is.
func (e *Engine) restoreCopies(ctx context.Context, s *tiering.SegmentInfo) error {
	var failed []error
	var again []tiering.Copy
	both := bothCopies()
	for _, c := range both {
		_, err := e.checkCopy(ctx, *s, c, false)
		state, known := stateOf(err)
		e.Recorder.CopyChecked(c, err)
		if !known {
			failed = append(failed, err)
			continue
		}
		if err := e.noteCopy(ctx, s, c, state); err != nil {
			return err
		}
		if state != tiering.CopyVerified {
			again = append(again, c)
		}
	}
	if len(again) == len(both) {
		return tiering.Errorf(tiering.CodeCorrupt, "neither copy of %s is sound", s.Name)
	}
	for _, c := range again {
		if err := e.repairCopy(ctx, s, c); !errors.Is(err, errMovedOn) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func bothCopies() [2]tiering.Copy { return [2]tiering.Copy{tiering.Primary, tiering.Backup} }

// maxSuspects bounds what readers may ask to have looked at.
const maxSuspects = 256

// suspects are segments of which a read found a copy bad, each once.
type suspects struct {
	mu    sync.Mutex
	names map[string]bool
	order []string
	news  chan struct{} // closed when there are some; nil while nobody waits
}

func (q *suspects) add(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.names[name] || len(q.order) >= maxSuspects {
		return // a segment that finds no room is met again by sampling
	}
	if q.names == nil {
		q.names = map[string]bool{}
	}
	q.names[name] = true
	q.order = append(q.order, name)
	if q.news != nil {
		close(q.news)
		q.news = nil
	}
}

func (q *suspects) take() (name string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return "", false
	}
	name, q.order = q.order[0], q.order[1:]
	delete(q.names, name)
	return name, true
}

// wait blocks until there are some, or d or ctx is over.
func (q *suspects) wait(ctx context.Context, d time.Duration) {
	q.mu.Lock()
	if len(q.order) > 0 {
		q.mu.Unlock()
		return
	}
	if q.news == nil {
		q.news = make(chan struct{})
	}
	news := q.news
	q.mu.Unlock()
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-news:
	case <-t.C:
	case <-ctx.Done():
	}
}

// Suspect asks to have a segment looked at of which a copy did not serve. It
// returns at once and may be called from any goroutine.
func (e *Engine) Suspect(name string, _ tiering.Copy) { e.suspects.add(name) }

// Replicate makes copies that are missing now, for tests and operators.
// It fails with lease_held where another daemon does.
func (e *Engine) Replicate(ctx context.Context) error {
	_, err := e.underLease(ctx, "replicate", e.replicate)
	return err
}

// mend puts the body of a version row right from cold. It is false when the row
// is right, is gone, or no copy is left.
func (e *Engine) mend(ctx context.Context, key tiering.Key, version int64) (bool, error) {
	body, ok, err := e.fromCold(ctx, key, version)
	if err != nil || !ok {
		return false, err
	}
	return e.Warm.Mend(ctx, key, version, body)
}

// fromCold reads a version from any segment that holds it; ok is false when
// none does.
func (e *Engine) fromCold(ctx context.Context, key tiering.Key, version int64) (body []byte, ok bool, err error) {
	locs, err := e.Warm.Locations(ctx, key)
	if err != nil {
		return nil, false, err
	}
	for _, l := range locs {
		if _, ok := l.Block(version); !ok {
			continue
		}
		rec, _, err := e.Archive.Read(ctx, l, version)
		if errors.Is(err, tiering.ErrNotFound) {
			continue // a gap between the location's versions
		}
		return rec.Body, err == nil, err
	}
	return nil, false, nil
}

// sampleCopies looks at suspects as they come, and every VerifyEvery at one
// copy of a segment, chosen at random.
func (e *Engine) sampleCopies(ctx context.Context, _ warm.Lease) (time.Duration, error) {
	for name, ok := e.suspects.take(); ok; name, ok = e.suspects.take() {
		if err := e.lookAt(ctx, name); err != nil {
			e.suspects.add(name)
			return 0, err
		}
	}
	due := e.sampled.Add(e.VerifyEvery)
	if wait := time.Until(due); wait > 0 {
		e.suspects.wait(ctx, min(wait, e.LeaseTTL/3))
		return 0, nil
	}
	e.sampled = time.Now()
	return 0, e.sampleOne(ctx)
}

// lookAt puts both copies of a segment right. One of which no sound copy is left is
// parked, and no error: nobody else is to wait for it.
func (e *Engine) lookAt(ctx context.Context, name string) error {
	s, ok, err := e.Warm.Segment(ctx, name)
	if err != nil {
		return err
	}
	if ok && s.State == tiering.SegmentFinished {
		err = e.restoreCopies(ctx, &s)
	}
	if tiering.CodeOf(err) == tiering.CodeCorrupt {
		e.park(moveVerify, name, parkAfter, err)
		return nil
	}
	if err == nil {
		e.unpark(moveVerify, name)
	}
	return err
}

// moveVerify names a segment whose copies cannot be put right among parked moves.
const moveVerify = "verify"

// lookAtLost looks again at segments that the catalog knows no sound copy of, as it
// does once a bucket answered both times without its objects: its folder was not
// mounted, or its address was wrong. Nothing reads them by chance, and nothing of them
// moves. The first one that is still lost ends it: the others have their turns.
func (e *Engine) lookAtLost(ctx context.Context, names []string) error {
	for _, i := range rand.Perm(len(names)) {
		if err := e.lookAt(ctx, names[i]); err != nil {
			return err
		}
		s, ok, err := e.Warm.Segment(ctx, names[i])
		if err != nil || ok && s.Verified() == 0 {
			return err
		}
	}
	return nil
}

// sampleOne reads back one copy of one finished segment. Each copy that the
// catalog counts on is as likely as the others.
func (e *Engine) sampleOne(ctx context.Context) error {
	var chosen tiering.SegmentInfo
	var copied tiering.Copy
	var lost []string
	seen := 0
	err := e.eachSegment(ctx, "", tiering.SegmentFinished, func(s tiering.SegmentInfo) error {
		if s.Verified() == 0 {
			lost = append(lost, s.Name)
		}
		for _, c := range bothCopies() {
			if s.Copies[c] != tiering.CopyVerified {
				continue
			}
			if seen++; rand.IntN(seen) == 0 {
				chosen, copied = s, c
			}
		}
		return nil
	})
	if err == nil {
		err = e.lookAtLost(ctx, lost)
	}
	if err != nil || seen == 0 {
		return err
	}
	_, err = e.checkCopy(ctx, chosen, copied, false)
	e.Recorder.CopyChecked(copied, err)
	state, known := stateOf(err)
	if !known {
		return err
	}
	if state == tiering.CopyVerified {
		return nil
	}
	now, ok, askErr := e.Warm.Segment(ctx, chosen.Name)
	if askErr != nil || !ok || now.State != tiering.SegmentFinished {
		return askErr // collected while it was read
	}
	e.Logger.Error("a cold copy is not sound", "segment", chosen.Name, "copy", copied, "err", err)
	return e.lookAt(ctx, chosen.Name)
}
