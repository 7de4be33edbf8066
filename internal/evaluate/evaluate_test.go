package evaluate

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/vector/embed/static"
	"github.com/tierd/tierd/vector/rank"
)

// standard is recall as it is without any option, in memory.
func standard(e *static.Embedder) *Reference {
	return &Reference{Embedder: e, Expander: e}
}

func measure(t *testing.T, set Set, s Searcher, modes ...Mode) Report {
	t.Helper()
	report, err := Measure(t.Context(), set, s, modes...)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := report.Print(&table); err != nil {
		t.Fatal(err)
	}
	t.Logf("in %v\n%s", report.Elapsed.Round(time.Millisecond), table.String())
	return report
}

// TestGate holds recall on the conversations of the repository: an English and a
// Chinese one, whose questions say things in other words than their answers. Where
// it fails something has got worse, and no option is to be turned until it passes.
func TestGate(t *testing.T) {
	set, err := Read("testdata/conversations.jsonl", "")
	if err != nil {
		t.Fatal(err)
	}
	atLeast := map[string][]float64{"english": {60, 78, 92}, "chinese": {66, 69, 80}}
	if len(set.Conversations) != len(atLeast) {
		t.Fatalf("%d conversations", len(set.Conversations))
	}
	e := static.New(nil)
	for _, c := range set.Conversations {
		t.Run(c.ID, func(t *testing.T) {
			one := Set{Conversations: []Conversation{c}}
			report := measure(t, one, standard(e), Modes()...)
			got := report.Overall(Default)
			for i, k := range Depths() {
				if got.Recall[i] < atLeast[c.ID][i] {
					t.Errorf("recall@%d is %.1f, and was at least %.1f", k, got.Recall[i], atLeast[c.ID][i])
				}
			}
			for _, arm := range []Mode{Words, Vectors} {
				if alone := report.Overall(arm); alone.Recall[0] > got.Recall[0] {
					t.Errorf("%s alone finds more: %.1f against %.1f", arm, alone.Recall[0], got.Recall[0])
				}
			}
			ageless := standard(e)
			ageless.Rank.Recency = -1
			if cost := measure(t, one, ageless, Default).Overall(Default).Recall[1] - got.Recall[1]; cost > 0.5 {
				t.Errorf("recency costs %.1f at 10", cost)
			}
		})
	}
}

// TestLoCoMo holds the bar on LoCoMo's ten conversations, which are no part of
// the repository: LOCOMO names locomo10.json.
func TestLoCoMo(t *testing.T) {
	path := os.Getenv("LOCOMO")
	if path == "" {
		t.Skip("LOCOMO does not name the file locomo10.json")
	}
	set, err := Read(path, os.Getenv("LOCOMO_ERRORS"))
	if err != nil {
		t.Fatal(err)
	}
	e := static.New(nil)
	got := measure(t, set, standard(e), Modes()...).Overall(Default)
	for i, least := range []float64{63, 71.5, 78} {
		if got.Recall[i] < least {
			t.Errorf("recall@%d is %.1f, want %.1f", Depths()[i], got.Recall[i], least)
		}
	}
	ageless := standard(e)
	ageless.Rank.Recency = -1
	if cost := measure(t, set, ageless, Default).Overall(Default).Recall[1] - got.Recall[1]; cost > 0.5 {
		t.Errorf("recency costs %.1f at 10", cost)
	}
	ranks := standard(e)
	ranks.Rank.Fusion = rank.Ranks
	measure(t, set, ranks, Default)
}

const locomo = `[{"sample_id":"conv-1","conversation":{"speaker_a":"Ann","speaker_b":"Bob",
 "session_10_date_time":"garbled","session_10":[{"speaker":"Bob","dia_id":"D10:1","text":"Bye"}],
 "session_2_date_time":"1:56 pm on 8 May, 2023","session_2":[{"speaker":"Ann","dia_id":"D2:1","text":"Hi","blip_caption":"a cat"},{"speaker":"Bob","dia_id":"D2:2","text":"Hello"}]},
 "qa":[{"question":"a","evidence":["D2:1; D2:02"],"category":1},{"question":"b","evidence":["D:10:1","D"],"category":2},
 {"question":"c","evidence":[],"category":3},{"question":"d","evidence":["D9:9"],"category":4},{"question":"e","evidence":["D2:1 D2:2 D2:1"],"category":9,"answer":1}]}]`

func TestReadLoCoMo(t *testing.T) {
	set, err := ReadLoCoMo(strings.NewReader(locomo), strings.NewReader(`[{"question_id":"locomo_0_qa4","category":5}]`))
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Conversations) != 1 || set.Unanswerable != 2 || set.Disputed != 1 || set.Questions() != 2 {
		t.Fatalf("%+v", set)
	}
	c := set.Conversations[0]
	want := []Memory{
		{ID: "D2:1", Text: "Hi a cat", Speaker: "Ann", Session: "session_2", Time: time.Date(2023, 5, 8, 13, 56, 0, 0, time.UTC)},
		{ID: "D2:2", Text: "Hello", Speaker: "Bob", Session: "session_2", Time: time.Date(2023, 5, 8, 13, 56, 0, 0, time.UTC)},
		{ID: "D10:1", Text: "Bye", Speaker: "Bob", Session: "session_10"},
	}
	if !slices.Equal(c.Memories, want) || !c.End().Equal(want[0].Time) {
		t.Errorf("memories %+v", c.Memories)
	}
	if q := c.Questions[0]; q.Category != "multi-hop" || !slices.Equal(q.Evidence, []string{"D2:1", "D2:2"}) {
		t.Errorf("question %+v", q)
	}
	if q := c.Questions[1]; !slices.Equal(q.Evidence, []string{"D10:1"}) {
		t.Errorf("question %+v", q)
	}
	if set, err = ReadLoCoMo(strings.NewReader(locomo), nil); err != nil || set.Questions() != 3 || set.Conversations[0].Questions[2].Category != "9" {
		t.Errorf("without an audit: %+v, %v", set, err)
	}
	for _, bad := range []string{"", "{}", `[{"conversation":{"session_1":3}}]`, `[{"conversation":{"session_1":[],"session_1_date_time":3}}]`} {
		if _, err := ReadLoCoMo(strings.NewReader(bad), nil); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}

func TestReadLines(t *testing.T) {
	set, err := ReadLines(strings.NewReader(`{"conversation":"c","id":"1","text":"I moved.","speaker":"Ann","session":"s","time":"2026-03-01T10:00:00Z"}

{"conversation":"c","question":"Where?","evidence":["1"],"category":"x"}
{"conversation":"d","id":"1","text":"Tea"}
{"conversation":"c","question":"Nobody knows?"}`))
	if err != nil || len(set.Conversations) != 2 || set.Questions() != 1 || set.Unanswerable != 1 {
		t.Fatalf("%+v, %v", set, err)
	}
	want := Memory{"1", "I moved.", "Ann", "s", time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)}
	if m := set.Conversations[0].Memories[0]; m != want {
		t.Errorf("memory %+v", m)
	}
	for name, c := range map[string]struct{ in, says string }{
		"no JSON":                   {"tea", "line 1"},
		"an unknown field":          {"\n" + `{"id":"1","txt":"Tea"}`, "line 2"},
		"neither":                   {`{"id":"1"}`, "either"},
		"both":                      {`{"id":"1","text":"Tea","question":"Tea?"}`, "either"},
		"no id":                     {`{"text":"Tea"}`, "id"},
		"two values":                {`{"id":"1","text":"Tea"} {}`, "more than one"},
		"an id twice":               {`{"id":"1","text":"Tea"}` + "\n" + `{"id":"1","text":"Cup"}`, "twice"},
		"evidence that isn't there": {`{"question":"Tea?","evidence":["7"]}`, "7"},
	} {
		if _, err := ReadLines(strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadByName(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := dir + "/" + name
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	lines, sample, audit := file("own.jsonl", `{"id":"1","text":"Tea"}`), file("locomo10.json", locomo), file("audit.json", `[]`)
	for _, c := range []struct {
		path, errors string
		ok           bool
	}{{lines, "", true}, {sample, "", true}, {sample, audit, true}, {lines, audit, false}, {dir + "/none", "", false}, {sample, dir + "/none", false}} {
		if _, err := Read(c.path, c.errors); (err == nil) != c.ok {
			t.Errorf("%s with %q: %v", c.path, c.errors, err)
		}
	}
}

// fixed answers every question alike.
type fixed []string

func (fixed) Remember(context.Context, Conversation) error { return nil }

func (f fixed) Search(_ context.Context, s Search) ([]string, error) {
	return f[:min(s.K, len(f))], nil
}

func TestMeasure(t *testing.T) {
	c := Conversation{ID: "c", Questions: []Question{
		{ID: "1", Evidence: []string{"m1"}, Category: "a"},
		{ID: "2", Evidence: []string{"m1", "m7"}, Category: "a"},
		{ID: "3", Evidence: []string{"m30"}, Category: "b"},
	}}
	var found fixed
	for i := 1; i <= 40; i++ {
		found = append(found, fmt.Sprintf("m%d", i))
	}
	report, err := Measure(t.Context(), Set{Conversations: []Conversation{c}, Unanswerable: 2}, found, Default)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := report.Print(&table); err != nil {
		t.Fatal(err)
	}
	want := `     mode  category  questions  recall@5  recall@10  recall@20
  default         a          2      75.0      100.0      100.0
  default         b          1       0.0        0.0        0.0
  default       all          3      50.0       66.7       66.7
left out: 2 questions without valid evidence, 0 whose labels are disputed
`
	if table.String() != want {
		t.Errorf("got\n%swant\n%s", table.String(), want)
	}
}

func TestAConversationThatIsNotThere(t *testing.T) {
	if _, err := (&Reference{}).Search(t.Context(), Search{Conversation: "x"}); err == nil {
		t.Error("no error")
	}
}
