// Package cost estimates what a month of a store costs, from what its tiers
// hold, the pace at which it grew, its policies and a price list. It computes
// only: tierd.Usage looks at the tiers.
package cost

import (
	"slices"

	"github.com/tierd/tierd/tiering"
)

// The units of an estimate.
const (
	Month = 30  // days
	Year  = 365 // days
	gb    = 1e9 // bytes
)

// Estimate is a month's cost, as it is now and as it will be in a year. All
// money is in the unit of Prices.
type Estimate struct {
	Prices Prices `json:"prices"`
	Pace   Pace   `json:"pace"`
	// Now is a month of what is held today, Year one of what will be held in a
	// year, at the same pace and under the same policies.
	Now  Bill `json:"now"`
	Year Bill `json:"in_a_year"`
	// Requests are those of one copy in a month, by what makes them.
	Requests    []Requests  `json:"requests"`
	Namespaces  []Namespace `json:"namespaces"`
	Assumptions []string    `json:"assumptions"`
}

// Pace is what came in a day.
type Pace struct {
	Days     float64 `json:"days"` // that it was looked at
	Versions float64 `json:"versions_a_day"`
	RawBytes float64 `json:"raw_bytes_a_day"`
	// Ratio is the bytes that cold takes for each byte of documents, in one copy.
	Ratio float64 `json:"cold_ratio"`
}

// Bill is one month.
type Bill struct {
	Tiers []TierBill `json:"tiers"` // hot, warm, cold, backup
	Total float64    `json:"total"`
	// InHot and InWarm are what all versions that cold keeps would cost if each
	// was kept as it is, in memory or in the database alone: once, without the
	// room that an index takes.
	InHot  float64 `json:"everything_in_hot"`
	InWarm float64 `json:"everything_in_warm"`
	// RawBytes is what InHot and InWarm are of.
	RawBytes float64 `json:"raw_bytes"`
}

// TierBill is one tier's part of a bill.
type TierBill struct {
	Tier     string  `json:"tier"`
	Bytes    float64 `json:"bytes"`
	Storage  float64 `json:"storage"`
	Puts     float64 `json:"puts"` // in a month
	Gets     float64 `json:"gets"`
	Requests float64 `json:"requests"` // what they cost
	Total    float64 `json:"total"`
}

// Namespace is what a namespace will have in a year.
type Namespace struct {
	Tenant    string `json:"tenant"`
	Namespace string `json:"namespace"`
	Class     string `json:"class"`
	Documents int64  `json:"documents"`
	// KeptBytes are all its versions that are kept now, as they were written.
	KeptBytes float64 `json:"kept_bytes"`
	Versions  float64 `json:"versions_a_day"`
	RawBytes  float64 `json:"raw_bytes_a_day"`
	// WarmYear and ColdYear are bytes in a year: of bodies in warm, and of one
	// cold copy.
	WarmYear float64 `json:"warm_bytes_in_a_year"`
	ColdYear float64 `json:"cold_bytes_in_a_year"`
	// KeptDays is how long a version is kept; Year where nothing ends it before.
	KeptDays float64 `json:"kept_days"`
}

// Of estimates the cost of what u tells. It is a pure function, and every
// number in its answer is finite.
func Of(u *tiering.Usage, p Prices) *Estimate {
	m := newModel(u)
	requests := m.requests()
	e := &Estimate{
		Prices:      p,
		Pace:        Pace{Days: m.days, Versions: m.versions, RawBytes: m.raw, Ratio: m.ratio},
		Requests:    requests,
		Namespaces:  m.namespaces(),
		Assumptions: m.assumptions(),
	}
	e.Now = bill(p, held{hot: m.hot(), warm: float64(u.WarmBytes), cold: [2]float64{float64(u.ColdBytes[0]), float64(u.ColdBytes[1])}, raw: m.rawNow()}, requests)
	year := m.coldYear() * m.ratio
	e.Year = bill(p, held{hot: m.hot(), warm: m.warmYear(), cold: [2]float64{year, year}, raw: m.coldYear()}, requests)
	return e
}

// held is what lies in the tiers, in bytes.
type held struct {
	hot, warm float64
	cold      [2]float64
	raw       float64 // all versions as they were written
}

func bill(p Prices, h held, requests []Requests) Bill {
	puts, gets := 0.0, 0.0
	for _, r := range requests {
		puts, gets = puts+r.Puts, gets+r.Gets
	}
	if h.cold == [2]float64{} { // no bucket is in use yet
		puts, gets = 0, 0
	}
	b := Bill{InHot: h.raw / gb * p.Hot, InWarm: h.raw / gb * p.Warm, RawBytes: h.raw, Tiers: []TierBill{
		{Tier: "hot", Bytes: h.hot, Storage: h.hot / gb * p.Hot},
		{Tier: "warm", Bytes: h.warm, Storage: h.warm / gb * p.Warm},
		{Tier: "cold", Bytes: h.cold[0], Storage: h.cold[0] / gb * p.Cold, Puts: puts, Gets: gets},
		{Tier: "backup", Bytes: h.cold[1], Storage: h.cold[1] / gb * p.Cold, Puts: puts, Gets: gets},
	}}
	for i := range b.Tiers {
		t := &b.Tiers[i]
		t.Requests = t.Puts/1000*p.Put + t.Gets/1000*p.Get
		t.Total = t.Storage + t.Requests
		b.Total += t.Total
	}
	return b
}

func (m *model) namespaces() []Namespace {
	out := make([]Namespace, 0, len(m.spaces))
	for _, s := range m.spaces {
		out = append(out, Namespace{
			Tenant: s.Tenant, Namespace: s.Namespace, Class: string(s.Policy.Class), Documents: s.Documents, KeptBytes: s.today,
			Versions: s.versions, RawBytes: s.raw, WarmYear: s.warmYear(), ColdYear: s.coldYear() * m.ratio, KeptDays: s.kept(),
		})
	}
	slices.SortStableFunc(out, func(a, b Namespace) int {
		switch x, y := a.WarmYear+a.ColdYear, b.WarmYear+b.ColdYear; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return out
}
