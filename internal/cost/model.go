package cost

import (
	"time"

	"github.com/tierd/tierd/tiering"
)

// model is what an estimate is computed from.
type model struct {
	u      *tiering.Usage
	spaces []space

	days     float64 // that the pace was looked at
	age      float64 // of the store, in days
	versions float64 // a day
	raw      float64 // bytes of bodies a day
	ratio    float64 // bytes in one cold copy for each byte of bodies
	measured bool    // the ratio is the store's own
	overhead float64 // bytes on warm's disk for each byte of documents in it
	weighed  bool    // the overhead is the store's own
}

// How warm's overhead is found: from what lies there, unless that is too little
// to tell it from an empty database.
const (
	weighable       = 8 << 20 // bytes of documents
	defaultOverhead = 2
	mostOverhead    = 10
)

// space is a namespace with its pace.
type space struct {
	tiering.NamespaceUsage
	versions float64 // a day
	raw      float64 // bytes a day
	fresh    float64 // bytes a day of documents that were not there before
	today    float64 // bytes of its versions that are kept by now
	age      float64 // of the store, in days
}

func newModel(u *tiering.Usage) *model {
	m := &model{u: u, days: max(u.Days, 1), ratio: 1, overhead: defaultOverhead}
	if !u.Since.IsZero() && u.Now.After(u.Since) {
		m.age = inDays(u.Now.Sub(u.Since))
	}
	for _, t := range u.Tenants {
		m.versions += t.Versions / m.days
		m.raw += t.RawBytes / m.days
	}
	if u.RawBytes > 0 && u.SegmentBytes > 0 {
		m.ratio, m.measured = float64(u.SegmentBytes)/float64(u.RawBytes), true
	}
	whole := 0.0
	for _, n := range u.Namespaces {
		whole += n.RawBytes
	}
	for _, n := range u.Namespaces {
		today := float64(n.Bytes)
		if whole > 0 { // it has the part of what is kept that it has of the pace
			today = max(today, n.RawBytes/whole*float64(u.RawBytes))
		}
		m.spaces = append(m.spaces, space{
			NamespaceUsage: n, versions: n.Versions / m.days, raw: n.RawBytes / m.days, fresh: float64(n.NewBytes) / m.days, today: today, age: m.age,
		})
	}
	if now := m.inWarm(); now >= weighable {
		m.overhead, m.weighed = min(max(float64(u.WarmBytes)/now, 1), mostOverhead), true
	}
	return m
}

func inDays(d time.Duration) float64 { return d.Hours() / 24 }

// hot is what hot holds. Where nobody can tell it is what is written within the
// time that hot keeps a document.
func (m *model) hot() (bytes float64) {
	if m.u.HotBytes >= 0 {
		return float64(m.u.HotBytes)
	}
	for _, s := range m.spaces {
		bytes += s.raw * inDays(s.Policy.HotTTL.Std())
	}
	return bytes
}

// rawNow is what is kept today, each version as it was written.
func (m *model) rawNow() float64 {
	current := 0.0
	for _, s := range m.spaces {
		current += float64(s.Bytes)
	}
	return max(float64(m.u.RawBytes), current)
}

// inWarm is the bytes of documents that warm holds now: bodies, and the
// projections of those that may be queried.
func (m *model) inWarm() float64 {
	now := float64(m.u.WarmBodies)
	for _, s := range m.spaces {
		if s.projected() {
			now += float64(s.Bytes)
		}
	}
	return now
}

// warmYear is what warm takes on its disk in a year. What an empty database
// takes, it keeps.
func (m *model) warmYear() float64 {
	fixed := max(0, float64(m.u.WarmBytes)-m.overhead*m.inWarm())
	bytes := 0.0
	for _, s := range m.spaces {
		bytes += s.warmYear()
	}
	return fixed + m.overhead*bytes
}

// coldYear is the bytes of the versions that cold keeps in a year, as they were
// written.
func (m *model) coldYear() (bytes float64) {
	for _, s := range m.spaces {
		bytes += s.coldYear()
	}
	return bytes
}

// ttl is the life of a document in days, 0 when it has no end.
func (s space) ttl() float64 { return inDays(s.Life.Std()) }

func (s space) projected() bool {
	return s.Policy.Durable() && s.Policy.Kind != tiering.KindLog && (s.Policy.Query == nil || *s.Policy.Query)
}

// live is the bytes of the current versions in a year. Documents that have an
// end are as many as today, once the store is older than one of them gets.
func (s space) live() float64 {
	more := float64(Year)
	if ttl := s.ttl(); ttl > 0 {
		more = min(max(ttl-s.age, 0), more)
	}
	return float64(s.Bytes) + s.fresh*more
}

// warmYear is the bytes of bodies and projections in warm in a year.
func (s space) warmYear() float64 {
	p := s.Policy
	if !p.Durable() {
		return 0
	}
	stays := inDays(p.DemoteAfter.Std())
	if ttl := s.ttl(); ttl > 0 {
		stays = min(stays, ttl)
	}
	if p.Kind == tiering.KindLog { // its versions are entries, and age by themselves
		return s.raw * min(stays, Year)
	}
	current := float64(s.ActiveBytes) + s.fresh*min(max(stays-s.age, 0), Year)
	bytes := min(current, s.live()) + s.raw*min(inDays(p.RetireAfter.Std()), Year)
	if s.projected() {
		bytes += s.live()
	}
	return bytes
}

// kept is how many days a version stays in cold: Year where nothing ends it
// before.
func (s space) kept() float64 {
	p := s.Policy
	if !p.Durable() {
		return 0
	}
	keep := inDays(p.KeepFor.Std())
	switch ttl := s.ttl(); {
	case ttl > 0: // of a document that has ended keep_versions covers nothing
		keep += ttl
	case p.KeepsAll():
		return Year
	case s.versions > 0 && s.Documents > 0:
		perDocument := s.versions / float64(s.Documents)
		keep = max(keep, float64(p.KeepVersions)/perDocument)
	}
	return min(keep, Year)
}

// coldYear is the bytes of the versions that are kept in a year. Where retention
// lets go of what is there today, the current versions stay.
func (s space) coldYear() float64 {
	kept := s.kept()
	switch {
	case !s.Policy.Durable():
		return 0
	case kept >= Year:
		return s.today + s.raw*Year
	case s.ttl() > 0:
		return s.raw * kept
	}
	return s.raw*kept + float64(s.Bytes) + s.fresh*(Year-kept)
}
