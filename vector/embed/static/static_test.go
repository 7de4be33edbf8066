package static

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/embed/wordvec"
	"github.com/tierd/tierd/vector/text"
)

// cosine embeds both texts.
func cosine(t *testing.T, query, document string) float64 {
	t.Helper()
	e := New(nil)
	q, err := e.Embed(t.Context(), vector.Query, []string{query})
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.Embed(t.Context(), vector.Document, []string{document})
	if err != nil {
		t.Fatal(err)
	}
	if q[0].Vector == nil || d[0].Vector == nil {
		t.Fatalf("%q or %q has no vector", query, document)
	}
	return vector.Dot(q[0].Vector, d[0].Vector)
}

func TestMeaning(t *testing.T) {
	for _, c := range []struct{ name, query, near, far string }{
		{"another word for it", "physician", "My doctor was kind.", "My landlord was kind."},
		{"what it is a kind of", "Which vehicle does he drive?", "He bought an automobile.", "He bought a sandwich."},
		{"a derived word", "Is she generous?", "Her generosity is known.", "Her sister is known."},
		{"a slip of the pen", "restaurnat", "We ate in a restaurant.", "We ate in a garden."},
		{"a compound", "Kindergarten", "Kindergärten sind teuer", "Autos sind teuer"},
		{"Chinese", "我喜欢爬山", "他周末去爬山", "他周末去游泳"},
		{"part of a Chinese word", "足球比赛", "球队赢了", "天气很好"},
		{"Korean", "학교", "학교에서 만났다", "병원에서 만났다"},
	} {
		if near, far := cosine(t, c.query, c.near), cosine(t, c.query, c.far); near <= far {
			t.Errorf("%s: %q is nearer to %q (%.3f) than to %q (%.3f)", c.name, c.query, c.far, far, c.near, near)
		}
	}
}

func TestVectorsHaveLengthOne(t *testing.T) {
	e := New(nil)
	texts := []string{"tea", "The of and", "x", "👍", "茶", strings.Repeat("long words and more of them ", 2000), "qqqq zzzz", "a\xffb"}
	for _, kind := range []vector.Kind{vector.Document, vector.Query} {
		out, err := e.Embed(t.Context(), kind, texts)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range out {
			if n := vector.Dot(x.Vector, x.Vector); len(x.Vector) != Dimensions || math.Abs(n-1) > 1e-5 {
				t.Errorf("%s %.20q: %d dimensions, length %v", kind, texts[i], len(x.Vector), n)
			}
		}
	}
}

func TestATextWithoutMeaningHasNoVector(t *testing.T) {
	out, err := New(nil).Embed(t.Context(), vector.Document, []string{"", " \n", "?!", "tea"})
	if err != nil || len(out) != 4 {
		t.Fatal(out, err)
	}
	for i, x := range out[:3] {
		if x.Vector != nil {
			t.Errorf("text %d has %v", i, x.Vector)
		}
	}
}

func TestRarityWeighsQueriesAlone(t *testing.T) {
	e := New(nil)
	rarity := func(term string) float64 {
		if term == "tea" {
			return 0
		}
		return 1
	}
	weighed, err := e.EmbedQuery(t.Context(), "tea cup", rarity)
	if err != nil {
		t.Fatal(err)
	}
	cup, err := e.EmbedQuery(t.Context(), "cup", rarity)
	if err != nil || !slices.Equal(weighed.Vector, cup.Vector) {
		t.Errorf("a term that everybody has still counts, %v", err)
	}
	nothing, err := e.EmbedQuery(t.Context(), "tea", rarity)
	if err != nil || nothing.Vector != nil {
		t.Errorf("got %v, %v", nothing, err)
	}
	document, err := e.Embed(t.Context(), vector.Document, []string{"tea cup"})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := e.EmbedQuery(t.Context(), "tea cup", func(string) float64 { return 1 })
	if err != nil || !slices.Equal(plain.Vector, document[0].Vector) {
		t.Errorf("a document is weighed, %v", err)
	}
}

// TestVectorsStay holds the identity of the space: where this fails, what is
// stored is of another space, and version has to change.
func TestVectorsStay(t *testing.T) {
	e := New(nil)
	out, err := e.Embed(t.Context(), vector.Document, []string{"Anna jogs around the lake; 她喜欢喝茶。"})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i, x := range out[0].Vector {
		sum += float64(x) * math.Sin(float64(i+1))
	}
	const want = -0.5485905
	if math.Abs(sum-want) > 1e-5 {
		t.Errorf("the vector sums up to %.7f, and did to %.7f", sum, float64(want))
	}
}

func TestSpaces(t *testing.T) {
	french, err := text.New(text.Options{Language: "french"})
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := New(nil).Space(), New(&text.Analyzer{}).Space(), New(french).Space()
	if a.ID() == "" || a.ID() != b.ID() || a.ID() == c.ID() {
		t.Errorf("%q, %q, %q", a.ID(), b.ID(), c.ID())
	}
}

func TestTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(nil).Embed(ctx, vector.Document, []string{"tea"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestNeighbours(t *testing.T) {
	e := New(nil)
	near := e.Neighbours("doctor")
	has := func(term string) bool {
		for _, n := range near {
			if n.Term == term {
				return true
			}
		}
		return false
	}
	if !has("physician") || has("doctor") || has("banana") {
		t.Errorf("a doctor is near %v", near)
	}
	for i, n := range near {
		if n.Similarity < 0.4 || n.Similarity > 1 || i > 0 && n.Similarity > near[i-1].Similarity {
			t.Errorf("neighbour %d: %+v", i, n)
		}
	}
	for _, none := range []string{"", "茶", "qqqq"} {
		if got := e.Neighbours(none); got != nil {
			t.Errorf("%q is near %v", none, got)
		}
	}
}

func TestMemory(t *testing.T) {
	n, err := New(nil).Bytes()
	if err != nil || n < 1<<20 || n > 24<<20 || len(file) > 13<<20 {
		t.Errorf("%d bytes of memory, %d of file, %v", n, len(file), err)
	}
}

const turn = "Wow, Caroline! That's great! I just signed up for a pottery class yesterday. It's like therapy for me, letting me express myself and get creative. Have you found any activities that make you feel the same way?"

func BenchmarkEmbed(b *testing.B) {
	e := New(nil)
	if _, err := e.Bytes(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Embed(b.Context(), vector.Document, []string{turn}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for b.Loop() {
		if _, err := wordvec.Read(file); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNeighbours(b *testing.B) {
	t, err := words()
	if err != nil {
		b.Fatal(err)
	}
	i, _ := t.Find("doctor")
	for b.Loop() {
		t.Neighbours(i, leastSimilarity, mostNeighbours)
	}
}
