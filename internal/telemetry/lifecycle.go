package telemetry

import (
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
)

// Lifecycle takes the measurements of the background engine. Gauges hold what
// was reported last: the one daemon that runs a worker reports its lag.
type Lifecycle struct{ m *metrics }

// Lifecycle returns the recorder of the background engine.
func (t *Telemetry) Lifecycle() *Lifecycle { return &Lifecycle{t.m} }

// FeedLag reports how many committed transactions are not in the feed yet.
func (l *Lifecycle) FeedLag(entries int64) { l.m.feedLag.Set(float64(entries)) }

// ArchiveLag reports how many feed entries are not archived yet, and the age
// of the oldest, 0 when all are.
func (l *Lifecycle) ArchiveLag(entries int64, oldest time.Duration) {
	l.m.archiveLag.Set(float64(entries))
	l.m.archiveAge.Set(oldest.Seconds())
}

// MissingCopies reports how many segments lack a verified copy.
func (l *Lifecycle) MissingCopies(c tiering.Copy, segments int64) {
	l.m.missingCopies.WithLabelValues(c.String()).Set(float64(segments))
}

// Indexed reports what the index of memories holds, and how many memories wait
// for the vector of their text.
func (l *Lifecycle) Indexed(s vector.Stats, pending int64) {
	l.m.memories.Set(float64(s.Memories))
	l.m.vectors.WithLabelValues("indexed").Set(float64(max(s.Vectors-s.Fresh-s.Dormant, 0)))
	l.m.vectors.WithLabelValues("fresh").Set(float64(s.Fresh))
	l.m.vectors.WithLabelValues("dormant").Set(float64(s.Dormant))
	l.m.vectorsPending.Set(float64(pending))
}

// CopyChecked records that one copy of a segment was read back: sound, or
// missing, bad or unreachable by its error.
func (l *Lifecycle) CopyChecked(c tiering.Copy, err error) {
	outcome := "unreachable"
	switch tiering.CodeOf(err) {
	case "":
		if err == nil {
			outcome = "sound"
			l.m.copySound.WithLabelValues(c.String()).SetToCurrentTime()
		}
	case tiering.CodeNotFound:
		outcome = "missing"
	case tiering.CodeCorrupt, tiering.CodeUnsupported:
		outcome = "bad"
	}
	l.m.copyChecks.WithLabelValues(c.String(), outcome).Inc()
}

// CopyRepaired records that a copy was made again, or that it failed.
func (l *Lifecycle) CopyRepaired(c tiering.Copy, err error) {
	outcome := "done"
	if err != nil {
		outcome = codeOf(err)
	}
	l.m.copyRepairs.WithLabelValues(c.String(), outcome).Inc()
}

// Moved records one move: done, or not because the world had moved on, or
// failed with err.
func (l *Lifecycle) Moved(m tiering.Move, done bool, err error) {
	outcome := "done"
	switch {
	case err != nil:
		outcome = codeOf(err)
	case !done:
		outcome = "moved_on"
	}
	l.m.moves.WithLabelValues(string(m), outcome).Inc()
}

// Due reports how many of a move fall due within a day.
func (l *Lifecycle) Due(m tiering.Move, n int64) {
	l.m.movesDue.WithLabelValues(string(m)).Set(float64(n))
}

// Stored reports how many bytes a tier holds; c counts for cold alone.
func (l *Lifecycle) Stored(t tiering.Tier, c tiering.Copy, bytes int64) {
	name := ""
	if t == tiering.Cold {
		name = c.String()
	}
	l.m.tierBytes.WithLabelValues(string(t), name).Set(float64(bytes))
}

// Parked reports how many moves keep failing.
func (l *Lifecycle) Parked(n int) { l.m.parkedMoves.Set(float64(n)) }
