package lifecycle

import (
	"context"
	"maps"
	"time"

	"github.com/tierd/tierd/tiering"
)

// forecastFor is how far ahead a sweep counts what falls due.
const forecastFor = 24 * time.Hour

// count notes a move that falls due soon.
func (s *sweeper) count(a tiering.Action) {
	if a.Move != tiering.MoveStay && len(a.Blocked) == 0 && a.Due.Before(s.now.Add(forecastFor)) {
		s.due[a.Move]++
	}
}

// tell publishes what a sweep saw: what falls due, what each tier holds, what
// keeps failing.
func (s *sweeper) tell(ctx context.Context) error {
	for _, m := range []tiering.Move{tiering.MoveExpire, tiering.MoveDemote, tiering.MoveRetire} {
		s.Recorder.Due(m, s.due[m])
	}
	s.mu.Lock()
	s.forecast = s.due
	parked := len(s.parked)
	s.mu.Unlock()
	s.Recorder.Parked(parked)
	if s.Hot != nil {
		if st, err := s.Hot.Stats(ctx); err == nil { // hot may be away
			s.Recorder.Stored(tiering.Hot, 0, st.Bytes)
		}
	}
	st, err := s.Warm.Stats(ctx)
	if err != nil {
		return err
	}
	s.Recorder.Stored(tiering.Warm, 0, st.DiskBytes)
	bytes, _, err := s.Cold(ctx)
	for c, n := range bytes {
		s.Recorder.Stored(tiering.Cold, tiering.Copy(c), n)
	}
	return err
}

// Forecast is how many moves fall due within a day, as the last sweep saw them.
func (e *Engine) Forecast() map[tiering.Move]int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.forecast)
}

// Cold is how many bytes the verified copies take, and how many segments lack
// one, by copy.
func (e *Engine) Cold(ctx context.Context) (bytes, missing [2]int64, err error) {
	err = e.eachSegment(ctx, "", tiering.SegmentFinished, func(s tiering.SegmentInfo) error {
		for c, state := range s.Copies {
			if state == tiering.CopyVerified {
				bytes[c] += s.Size
			} else {
				missing[c]++
			}
		}
		return nil
	})
	return bytes, missing, err
}
