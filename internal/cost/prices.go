package cost

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Prices is a price list, in dollars or any other money. The zero value is a
// list on which everything is free.
type Prices struct {
	// Hot, Warm and Cold are a GB (1e9 bytes) and month, cold for each copy.
	Hot  float64 `json:"hot"`
	Warm float64 `json:"warm"`
	Cold float64 `json:"cold"`
	// Put and Get are 1,000 requests of object storage: Put also a LIST, Get
	// also a HEAD.
	Put float64 `json:"put"`
	Get float64 `json:"get"`
}

// Defaults are the prices that hold unless somebody names others. Storage is the
// usual order of memory, database disk and archive storage; requests are those
// of Amazon S3 Standard in us-east-1. Archive classes ask more for a request:
// two to six times for a PUT.
func Defaults() Prices {
	return Prices{Hot: 0.12, Warm: 0.023, Cold: 0.0023, Put: 0.005, Get: 0.0004}
}

// fields are the names of the prices in their text form.
func (p *Prices) fields() []field {
	return []field{{"hot", &p.Hot}, {"warm", &p.Warm}, {"cold", &p.Cold}, {"put", &p.Put}, {"get", &p.Get}}
}

type field struct {
	name string
	at   *float64
}

// String writes the form that ParsePrices reads.
func (p Prices) String() string {
	var parts []string
	for _, f := range p.fields() {
		parts = append(parts, f.name+"="+strconv.FormatFloat(*f.at, 'f', -1, 64))
	}
	return strings.Join(parts, ",")
}

// ParsePrices reads a list such as "hot=0.12,put=0". What it does not name has
// its default.
func ParsePrices(text string) (Prices, error) {
	p := Defaults()
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		at := (*float64)(nil)
		for _, f := range p.fields() {
			if f.name == name {
				at = f.at
			}
		}
		if at == nil {
			return Prices{}, fmt.Errorf("there is no price %q: use hot, warm, cold, put and get", name)
		}
		x, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || x < 0 || math.IsInf(x, 0) || math.IsNaN(x) {
			return Prices{}, fmt.Errorf("the price %s is %q: use a number that is not negative, such as %s=0.12", name, value, name)
		}
		if seen[name] {
			return Prices{}, fmt.Errorf("the price %s stands twice", name)
		}
		seen[name] = true
		*at = x
	}
	return p, nil
}
