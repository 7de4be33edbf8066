package cost

import "math"

// Requests are requests to one bucket in a month. Deletes cost nothing.
type Requests struct {
	What string  `json:"what"`
	Puts float64 `json:"puts"` // and lists
	Gets float64 `json:"gets"` // and heads
}

// How the background writes to a bucket: the defaults of lifecycle.Config.
const (
	segmentBytes = 8 << 20 // of documents make a segment
	segmentAge   = 10.0    // seconds that a change waits at most
	mergeCount   = 8       // segments or more become one
	listPage     = 1000    // objects
	daySeconds   = 86_400.0
	dayMinutes   = 1440.0
	dayHours     = 24.0
)

// segments is how many segments a tenant's changes make in a day. The first
// change begins one, which takes what comes until it is large or old enough. Of
// changes that come in bursts more share one.
func segments(versions, raw float64) float64 {
	byAge := versions / (1 + versions/daySeconds*segmentAge)
	return min(versions, max(byAge, raw/segmentBytes))
}

// requests are those of one copy in a month.
func (m *model) requests() []Requests {
	written, retired := 0.0, 0.0
	for _, t := range m.u.Tenants {
		written += segments(t.Versions/m.days, t.RawBytes/m.days)
	}
	// Each merge makes one of mergeCount at least, so there are few more of them
	// than segments to do away with.
	merged := written / (mergeCount - 1)
	for _, s := range m.spaces {
		retired += s.versions
	}
	out := []Requests{
		{What: "segments of what comes, each read back", Puts: written, Gets: 2 * written},
		{What: "segments that others are merged to", Puts: merged, Gets: 2*merged + written + merged},
		{What: "versions read back before they leave warm", Gets: retired},
	}
	if m.u.Segments > 0 || written > 0 {
		out = append(out,
			Requests{What: "one copy read back a minute", Gets: dayMinutes / 2}, // of either bucket
			Requests{What: "a try of the bucket a minute", Puts: dayMinutes, Gets: dayMinutes},
			Requests{What: "a list of the bucket an hour", Puts: dayHours * math.Ceil(max(float64(m.u.Segments), 1)/listPage)})
	}
	for i := range out {
		out[i].Puts *= Month
		out[i].Gets *= Month
	}
	return out
}
