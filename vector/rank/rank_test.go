package rank

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func equal(t *testing.T, got, want []float64) {
	t.Helper()
	if !slices.EqualFunc(got, want, near) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSpread(t *testing.T) {
	turns := []Turn{
		{Session: "a", Position: 3, Score: 0},
		{Session: "a", Position: 1, Score: 0},
		{Session: "a", Position: 2, Score: 10},
		{Session: "b", Position: 3, Score: 1},
		{Session: "", Position: 1, Score: 4},
		{Session: "", Position: 2, Score: 0},
	}
	equal(t, Spread(turns, Options{}), []float64{3, 1.5, 10, 1, 4, 0})
	equal(t, Spread(turns, Options{Next: 0.5, Previous: -1}), []float64{5, 0, 10, 1, 4, 0})
	equal(t, Spread(turns, Options{Next: -1, Previous: -1}), []float64{0, 0, 10, 1, 4, 0})
	equal(t, Spread(nil, Options{}), nil)
}

// TestSpreadNeedsTheNeighboursAlone holds what a store may leave out: turns that
// neither have a score nor stand beside one.
func TestSpreadNeedsTheNeighboursAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Turn
		for i := range rapid.IntRange(1, 12).Draw(t, "turns") {
			score := float64(rapid.SampledFrom([]int{0, 0, 0, 1, 5}).Draw(t, "score"))
			all = append(all, Turn{Session: "s", Position: int64(i), Score: score})
		}
		var some []Turn
		var at []int
		for i, turn := range all {
			beside := i > 0 && all[i-1].Score > 0 || i+1 < len(all) && all[i+1].Score > 0
			if turn.Score > 0 || beside {
				some, at = append(some, turn), append(at, i)
			}
		}
		whole, part := Spread(all, Options{}), Spread(some, Options{})
		for n, i := range at {
			if !near(whole[i], part[n]) {
				t.Fatalf("turn %d: %v of all, %v of some", i, whole[i], part[n])
			}
			whole[i] = 0
		}
		if slices.Max(whole) > 0 {
			t.Fatalf("something else has a score: %v", whole)
		}
	})
}

func TestSession(t *testing.T) {
	turns := []Turn{{Session: "a"}, {Session: "a"}, {Session: "a"}, {Session: "b"}, {}, {}}
	scores := []float64{10, 2, 0, 2, 2, 0}
	equal(t, Session(turns, scores, Options{}), []float64{13, 5, 0, 2.6, 2.6, 0})
	equal(t, Session(turns, scores, Options{Session: -1}), scores)
}

func TestSpeakers(t *testing.T) {
	for _, c := range []struct {
		query, speaker string
		want           bool
	}{
		{"What did Caroline paint?", "Caroline", true},
		{"what is CAROLINE'S job", "caroline", true},
		{"What did Caroline paint?", "Melanie", false},
		{"Does Ann like tea?", "Anna", false},
		{"Where does José live?", "Jose", true},
		{"What about Mary Ann Smith?", "Smith, Mary", true},
		{"What is plan B?", "B", false},
		{"林晓住在哪里？", "林晓", true},
		{"晓林住在哪里？", "林晓", false},
		{"王先生呢", "王", true},
		{"田中さんの仕事は", "田中", true},
		{"What did she say?", "", false},
		{"", "Caroline", false},
	} {
		s := NewSpeakers(c.query, Options{})
		if got := s.Named(c.speaker); got != c.want {
			t.Errorf("%q names %q: %v", c.query, c.speaker, got)
		}
		want := 1.0
		if c.want {
			want = 1.25
		}
		if got := s.Boost(c.speaker); got != want {
			t.Errorf("%q boosts %q by %v", c.query, c.speaker, got)
		}
	}
	if got := NewSpeakers("Ann", Options{Speaker: -1}).Boost("Ann"); got != 1 {
		t.Errorf("switched off: %v", got)
	}
}

func TestFuse(t *testing.T) {
	words := List[string]{Weight: 1, IDs: []string{"a", "b", "c"}, Scores: []float64{10, 9, 1}}
	vectors := List[string]{Weight: 0.5, IDs: []string{"c", "d"}, Scores: []float64{0.8, 0.4}}
	for _, c := range []struct {
		name  string
		o     Options
		lists []List[string]
		want  string
	}{
		{"by scores", Options{Fusion: Scores}, []List[string]{words, vectors}, "a=1.0000[1 0] b=0.9000[2 0] c=0.6000[3 1] d=0.2500[0 2]"},
		{"by ranks", Options{Fusion: Ranks}, []List[string]{words, vectors}, "c=0.0241[3 1] a=0.0164[1 0] b=0.0161[2 0] d=0.0081[0 2]"},
		{"a list without scores", Options{Fusion: Scores}, []List[string]{words, {Weight: 0.5, IDs: []string{"c", "d"}}}, "c=0.0241[3 1] a=0.0164[1 0] b=0.0161[2 0] d=0.0081[0 2]"},
		{"another constant", Options{Fusion: Ranks, K: 1}, []List[string]{words}, "a=0.5000[1] b=0.3333[2] c=0.2500[3]"},
		{"a list of no weight", Options{Fusion: Ranks}, []List[string]{{IDs: []string{"x"}}, vectors}, "c=0.0082[0 1] d=0.0081[0 2]"},
		{"a depth", Options{Fusion: Scores, Depth: 1}, []List[string]{words, vectors}, "a=1.0000[1 0] c=0.5000[0 1]"},
		{"ties by ID", Options{Fusion: Ranks}, []List[string]{{Weight: 1, IDs: []string{"z"}}, {Weight: 1, IDs: []string{"y"}}}, "y=0.0164[0 1] z=0.0164[1 0]"},
		{"a memory twice in a list", Options{Fusion: Ranks}, []List[string]{{Weight: 1, IDs: []string{"z", "z"}}}, "z=0.0164[1]"},
		{"no scores above zero", Options{Fusion: Scores}, []List[string]{{Weight: 1, IDs: []string{"b", "a"}, Scores: []float64{0, 0}}}, "a=0.0000[2] b=0.0000[1]"},
		{"nothing", Options{}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got string
			for i, f := range Fuse(c.o, c.lists...) {
				if i > 0 {
					got += " "
				}
				got += fmt.Sprintf("%s=%.4f%v", f.ID, f.Score, f.Ranks)
			}
			if got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestFinal(t *testing.T) {
	old := now.Add(-3650 * day)
	for _, c := range []struct {
		name string
		rel  float64
		s    Signals
		o    Options
		want Parts
	}{
		{"made just now", 1, Signals{Created: now}, Options{}, Parts{1.1, 1, 0.1, 0, 0}},
		{"a half-life old", 1, Signals{Created: now.Add(-30 * day)}, Options{}, Parts{1.05, 1, 0.05, 0, 0}},
		{"old, used a half-life ago", 1, Signals{Created: old, LastUsed: now.Add(-30 * day)}, Options{}, Parts{1.05, 1, 0.05, 0, 0}},
		{"used before it was made", 1, Signals{Created: now, LastUsed: old}, Options{}, Parts{1.1, 1, 0.1, 0, 0}},
		{"a fact does not age", 1, Signals{Created: old, Ageless: true}, Options{}, Parts{1.1, 1, 0.1, 0, 0}},
		{"made in the future", 1, Signals{Created: now.Add(day)}, Options{}, Parts{1.1, 1, 0.1, 0, 0}},
		{"used in the future", 1, Signals{Created: old, LastUsed: now.Add(1000 * day)}, Options{}, Parts{1.1, 1, 0.1, 0, 0}},
		{"no time", 1, Signals{}, Options{}, Parts{1, 1, 0, 0, 0}},
		{"important", 0.5, Signals{Importance: 1}, Options{}, Parts{0.55, 0.5, 0, 0.1, 0}},
		{"more than important", 1, Signals{Importance: 7}, Options{}, Parts{1.1, 1, 0, 0.1, 0}},
		{"less than unimportant", 1, Signals{Importance: -7}, Options{}, Parts{1, 1, 0, 0, 0}},
		{"an importance that is no number", 1, Signals{Importance: math.NaN()}, Options{}, Parts{1, 1, 0, 0, 0}},
		{"used twenty times", 1, Signals{Uses: 20}, Options{}, Parts{1.05, 1, 0, 0, 0.05}},
		{"used a million times", 1, Signals{Uses: 1e6}, Options{}, Parts{1.05, 1, 0, 0, 0.05}},
		{"used once", 1, Signals{Uses: 1}, Options{}, Parts{1 + 0.05*math.Log(2)/math.Log(21), 1, 0, 0, 0.05 * math.Log(2) / math.Log(21)}},
		{"fewer uses than none", 1, Signals{Uses: -5}, Options{}, Parts{1, 1, 0, 0, 0}},
		{"all switched off", 1, Signals{Created: now, Importance: 1, Uses: 20}, Options{Recency: -1, Importance: -1, Use: -1}, Parts{1, 1, 0, 0, 0}},
		{"all of it", 1, Signals{Created: now, Importance: 1, Uses: 20}, Options{}, Parts{1.25, 1, 0.1, 0.1, 0.05}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Final(c.rel*7, 7, c.s, now, c.o)
			equal(t, []float64{got.Total, got.Relevance, got.Recency, got.Importance, got.Use},
				[]float64{c.want.Total, c.want.Relevance, c.want.Recency, c.want.Importance, c.want.Use})
		})
	}
	if got := Final(0, 0, Signals{}, now, Options{}); got.Total != 0 {
		t.Errorf("no relevance at all: %+v", got)
	}
}

func TestOptionsMayBeSetTwice(t *testing.T) {
	o := Options{Recency: -1, Next: -1, K: 10}.WithDefaults()
	if o != o.WithDefaults() || o.Recency != -1 || o.K != 10 || o.Depth != 100 {
		t.Errorf("%+v", o)
	}
}

func ids[ID cmp.Ordered](matches []Match[ID]) []ID {
	var out []ID
	for _, m := range matches {
		out = append(out, m.ID)
	}
	return out
}

func TestRank(t *testing.T) {
	q := Query{Text: "What did Ann cook?", VectorWeight: 0.2, Now: now}
	for _, c := range []struct {
		name string
		in   []Candidate[string]
		want []string
	}{
		{"by words", []Candidate[string]{{ID: "a", Lexical: 1}, {ID: "b", Lexical: 2}, {ID: "c"}}, []string{"b", "a"}},
		{
			"the vector arm alone, to the last of it",
			[]Candidate[string]{{ID: "a", Similar: true, Similarity: 0.7}, {ID: "b", Similar: true, Similarity: 0.9}, {ID: "c", Similar: true, Similarity: 0.8}},
			[]string{"b", "c", "a"},
		},
		{
			"the turn after a match",
			[]Candidate[string]{{ID: "a", Session: "s", Position: 1, Lexical: 2}, {ID: "b", Session: "s", Position: 2}, {ID: "c", Session: "s", Position: 3}},
			[]string{"a", "b"},
		},
		{
			"the speaker who is named",
			[]Candidate[string]{{ID: "a", Speaker: "Bob", Lexical: 1}, {ID: "b", Speaker: "Ann", Lexical: 0.9}},
			[]string{"b", "a"},
		},
		{
			"of two alike the younger",
			[]Candidate[string]{{ID: "a", Lexical: 1, Signals: Signals{Created: now.Add(-400 * day)}}, {ID: "b", Lexical: 1, Signals: Signals{Created: now}}},
			[]string{"b", "a"},
		},
		{
			"a similarity below zero counts as the least",
			[]Candidate[string]{{ID: "a", Similar: true, Similarity: -0.5}, {ID: "b", Similar: true, Similarity: 0.1}},
			[]string{"b", "a"},
		},
		{"nothing", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ids(Rank(q, c.in, Options{})); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestRankIsTheSameInAnyOrder holds that what a store reads first does not
// matter, and that an old memory of twice the relevance is never overtaken.
func TestRankIsTheSameInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in []Candidate[int]
		for i := range rapid.IntRange(0, 10).Draw(t, "candidates") {
			in = append(in, Candidate[int]{
				ID: i, Session: rapid.SampledFrom([]string{"", "s", "t"}).Draw(t, "session"), Position: int64(i),
				Lexical: float64(rapid.IntRange(0, 3).Draw(t, "lexical")), Similar: rapid.Bool().Draw(t, "similar"),
				Similarity: float64(rapid.IntRange(-2, 4).Draw(t, "similarity")) / 4,
				Signals:    Signals{Created: now.Add(-time.Duration(rapid.IntRange(0, 90).Draw(t, "days")) * day)},
			})
		}
		q := Query{Text: "x", VectorWeight: 0.5, Now: now}
		got := Rank(q, in, Options{})
		for i, m := range got {
			if i > 0 && got[i-1].Total < m.Total {
				t.Fatalf("%v before %v", got[i-1], m)
			}
			if i > 0 && got[i-1].Relevance < m.Relevance/1.25 {
				t.Fatalf("a memory of relevance %v comes before one of %v", got[i-1].Relevance, m.Relevance)
			}
		}
		if again := Rank(q, rapid.Permutation(in).Draw(t, "order"), Options{}); !slices.Equal(ids(again), ids(got)) {
			t.Fatalf("%v, in another order %v", ids(got), ids(again))
		}
	})
}
