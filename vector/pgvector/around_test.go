package pgvector

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/tierd/tierd/internal/memorytest"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/vectortest"
	"github.com/tierd/tierd/warm/postgres"
)

// TestNeighboursAreFoundWithoutTheirSession: one that never ends is not read for
// each of its memories that is found.
func TestNeighboursAreFoundWithoutTheirSession(t *testing.T) {
	url, _ := servicestest.Schema(t)
	clock := memorytest.NewClock()
	store, err := postgres.Open(t.Context(), url, &postgres.Options{Clock: clock.Now, Committers: 2, Readers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	pool, err := store.Pool(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	x, err := Open(t.Context(), pool, &Options{Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	const said = 800
	key := func(i int) tiering.Key {
		return tiering.Key{Tenant: "acme", Namespace: "mind", ID: fmt.Sprintf("%04d", i)}
	}
	var ms []vectortest.Memory
	for i := range said {
		m := vectortest.Memory{Key: key(i), User: "ann", Entry: tiering.MemoryEntry{Session: "s", Length: 1, Terms: []tiering.MemoryTerm{{Text: "x", Freq: 1}}}}
		if i%2 == 0 { // the others happened when they were told
			m.Entry.At = clock.Now().Add(time.Duration(i-said) * time.Second)
		}
		ms = append(ms, m)
	}
	memorytest.New(clock, store, x).Remember(t, ms...)
	s := vector.Scope{Tenant: "acme", Namespaces: []string{"mind"}, User: "ann"}
	hits := []vector.Hit{{Key: key(400), Session: "s"}, {Key: key(10), Session: "s"}, {Key: key(1), Session: "s"}}
	around, err := x.Around(t.Context(), s, hits)
	if err != nil || len(around) != 3 {
		t.Fatal(around, err)
	}
	for i, want := range [][2]int{{398, 402}, {8, 12}, {798, 3}} {
		if a := around[i]; a.Of != hits[i].Key || a.Before == nil || a.After == nil || a.Before.Key != key(want[0]) || a.After.Key != key(want[1]) {
			t.Errorf("around %s are %+v and %+v, want %v", a.Of, a.Before, a.After, want)
		}
	}
	places, err := x.places(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var a args
	sql := x.aroundSQL(&a, s, places[0], [][]byte{[]byte("0400"), []byte("0010")})
	rows, err := x.walker().Query(t.Context(), `EXPLAIN (ANALYZE, FORMAT JSON) `+sql, a.values...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var text []byte
	for rows.Next() {
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
	}
	var plans []struct{ Plan node }
	if err := json.Unmarshal(text, &plans); err != nil || rows.Err() != nil {
		t.Fatal(err, rows.Err())
	}
	if n := plans[0].Plan.read(); n == 0 || n > 60 {
		t.Errorf("%v rows were read:\n%s", n, text)
	}
}

// node is what matters here of a node of EXPLAIN.
type node struct {
	Relation string  `json:"Relation Name"`
	Rows     float64 `json:"Actual Rows"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Loops    float64 `json:"Actual Loops"`
	Plans    []node
}

// read is how many rows of tables were looked at.
func (n node) read() (rows float64) {
	if n.Relation != "" {
		rows = (n.Rows + n.Filtered) * n.Loops
	}
	for _, below := range n.Plans {
		rows += below.read()
	}
	return rows
}
