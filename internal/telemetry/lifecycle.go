package telemetry

import (
	"time"

	"github.com/tierd/tierd/tiering"
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
