package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/tierd/tierd/internal/jsondoc"
)

// Documents are about as long as asked for, compact, and the same every time.
func TestDocuments(t *testing.T) {
	for _, size := range []int{1 << 10, 8 << 10} {
		docs := documents(50, size)
		total := 0
		for _, doc := range docs {
			total += len(doc)
			if compact, err := jsondoc.Compact(doc); err != nil || string(compact) != string(doc) {
				t.Fatalf("not compact, %v: %s", err, doc)
			}
		}
		if mean := total / len(docs); mean < size*8/10 || mean > size*12/10 {
			t.Errorf("documents of %d bytes have %d on average", size, mean)
		}
		if again := documents(50, size); !slices.EqualFunc(docs, again, func(a, b []byte) bool { return string(a) == string(b) }) {
			t.Error("documents differ from one call to the next")
		}
	}
}

// A session's versions grow by a turn each.
func TestGrowing(t *testing.T) {
	for _, versions := range growing(3, 20) {
		for v, doc := range versions {
			var c chat
			if err := json.Unmarshal(doc, &c); err != nil || len(c.Messages) != v+1 {
				t.Fatalf("version %d has %d turns, %v", v, len(c.Messages), err)
			}
		}
	}
}

// Every contestant writes the same documents to the same keys in a round.
func TestStreamsAreTheSameForAll(t *testing.T) {
	docs := documents(20, 1<<10)
	read := func(round, worker int) (all []string) {
		s := newStream(round, worker, 1000, docs)
		for range 50 {
			id, doc := s.next()
			all = append(all, id+string(doc))
		}
		return all
	}
	if !slices.Equal(read(1, 2), read(1, 2)) {
		t.Error("a round's stream differs between contestants")
	}
	if slices.Equal(read(1, 2), read(2, 2)) || slices.Equal(read(1, 2), read(1, 3)) {
		t.Error("rounds or workers share a stream")
	}
}

// A row says the median of its rounds, and whether that meets the target.
func TestRows(t *testing.T) {
	for name, test := range map[string]struct {
		rounds []float64
		target *Target
		want   string
	}{
		"at least":         {[]float64{1, 9, 3}, atLeast(3), "3 1..9 true"},
		"below":            {[]float64{2, 3}, atLeast(2.6), "2.5 2..3 false"},
		"at most":          {[]float64{0.5}, atMost(0.6), "0.5 0.5..0.5 true"},
		"above":            {[]float64{0.7, 0.7, 0.1}, atMost(0.6), "0.7 0.1..0.7 false"},
		"without a target": {[]float64{4, 2}, nil, "3 2..4 <nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			var r Report
			r.add(Row{Target: test.target}, test.rounds...)
			row, met := r.Rows[0], any(nil)
			if row.Met != nil {
				met = *row.Met
			}
			if got := fmt.Sprintf("%v %v..%v %v", row.Measured, row.Low, row.High, met); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// A shut gate holds callers up until it opens or they give up.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		g.pass(t.Context()) // open at first
		g.shut()
		g.shut()
		through := false
		go func() { g.pass(t.Context()); through = true }()
		gone, leave := context.WithCancel(t.Context())
		left := false
		go func() { g.pass(gone); left = true }()
		synctest.Wait()
		if through || left {
			t.Fatal("a shut gate lets callers through")
		}
		leave()
		synctest.Wait()
		if !left || through {
			t.Fatal("who gives up is not let go alone")
		}
		g.open()
		synctest.Wait()
		if !through {
			t.Fatal("an open gate holds callers up")
		}
	})
}

// The processor time of this process is read where there is /proc.
func TestProcessors(t *testing.T) {
	if load() == "unknown" {
		t.Skip("no /proc")
	}
	var p processors
	before := p.read()
	for n := 0; p.between(before, p.read()).own == 0; n++ {
		if n > 10_000 {
			t.Fatal("reading /proc ten thousand times took no processor time")
		}
	}
}

// What ended or began between two readings is never counted as negative, nor
// what a new program has used under an old one's number.
func TestSpentBetween(t *testing.T) {
	p := processors{postmaster: 10, redis: 20}
	before := map[int]process{
		10: {id: 10, name: "postgres", used: 5}, 11: {id: 11, parent: 10, name: "postgres", used: 3}, 12: {id: 12, parent: 10, name: "postgres", used: 100},
		20: {id: 20, name: "redis-server", used: 7}, 30: {id: 30, name: "cc1", began: "1", used: 50}, 40: {id: 40, name: "minio", used: 1},
	}
	after := map[int]process{
		10: {id: 10, name: "postgres", used: 6}, 11: {id: 11, parent: 10, name: "postgres", used: 5}, 13: {id: 13, parent: 10, name: "postgres", used: 1},
		20: {id: 20, name: "redis", used: 8}, 30: {id: 30, name: "go", began: "2", used: 2}, 40: {id: 40, name: "minio", used: 9},
	}
	if got, want := p.between(before, after), (spent{postgres: 4, redis: 1, elsewhere: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
