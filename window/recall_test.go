package window_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/window"
)

// memory is a match with a text of n words.
func memory(id string, n int) tiering.Match {
	m := tiering.Match{}
	m.Namespace, m.ID, m.Version, m.Score.Total, m.Score.Relevance = "people", id, 3, 0.5, 0.5
	m.Text = strings.TrimSpace(strings.Repeat(id+" ", n))
	return m
}

func recalledIDs(c *tiering.SessionContext) string {
	var ids []string
	for _, m := range c.Recalled.Memories {
		ids = append(ids, m.ID)
	}
	return strings.Join(ids, " ")
}

// Recalled memories are one message before the conversation, apart from it, of a
// third of what the turns to keep leave at most; one that does not fit leaves its
// place to the next.
func TestRecalledMemoriesAreWovenIn(t *testing.T) {
	long := memory("long", 100)
	dated, other := memory("dated", 3), memory("other", 1)
	other.Score.Total, other.Score.Relevance = 0, 0 // nothing of what was asked for
	dated.OccurredAt = time.Date(2026, 2, 1, 23, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name    string
		matches []tiering.Match
		budget  int
		ids     string
		left    int
		message string
	}{
		{"those that fit", []tiering.Match{dated, other, long, memory("short", 2)}, 300, "dated short", 1,
			"From long-term memory, not said in this conversation:\n- 2026-02-01: dated dated dated\n- short short"},
		{"none that fits", []tiering.Match{long}, 200, "", 1, ""},
		{"none that was found", nil, 200, "", 0, ""},
	} {
		for _, shape := range []window.Shape{window.OpenAI, window.Anthropic} {
			t.Run(fmt.Sprintf("%s in the shape of %s", c.name, shape), func(t *testing.T) {
				o := window.Options{Budget: c.budget, Count: words, Shape: shape, KeepTurns: 2, Recalled: &tiering.Recalled{Matches: c.matches, Partial: true, Reason: "why"}}
				got, err := window.Fit(talk(2), o)
				if err != nil {
					t.Fatal(err)
				}
				o.Recalled = nil
				without, err := window.Fit(talk(2), o)
				if err != nil {
					t.Fatal(err)
				}
				if recalledIDs(got) != c.ids || got.Recalled.LeftOut != c.left || !got.Recalled.Partial || got.Recalled.Reason != "why" || without.Recalled != nil {
					t.Errorf("it tells of %+v", got.Recalled)
				}
				if got.Tokens != without.Tokens+got.Recalled.Tokens || got.Tokens > c.budget || (got.Recalled.Tokens > 0) != (c.ids != "") {
					t.Errorf("%d tokens, of them %d recalled; %d without", got.Tokens, got.Recalled.Tokens, without.Tokens)
				}
				all := string(got.Messages[0])
				if shape == window.OpenAI {
					all = string(got.Messages[1]) // behind the system message
				}
				if want := strings.ReplaceAll(c.message, "\n", `\n`); !strings.Contains(all, want) || c.message == "" && strings.Contains(all, "long-term") {
					t.Errorf("the message is %s", all)
				}
			})
		}
	}
}

// At every budget that holds a context without memories there is one with them.
func TestMemoriesNeverPushOutWhatStays(t *testing.T) {
	var found []tiering.Match
	for i := range 10 {
		found = append(found, memory(fmt.Sprintf("m%d", i), 5+10*i))
	}
	log := talk(20)
	for budget := 1; budget < 1500; budget += 11 {
		o := window.Options{Budget: budget, Count: words}
		_, plain := window.Fit(log, o)
		o.Recalled = &tiering.Recalled{Matches: found}
		got, err := window.Fit(log, o)
		if (err == nil) != (plain == nil) {
			t.Fatalf("budget %d: %v with memories, %v without", budget, err, plain)
		}
		if err == nil && (got.Tokens > budget || len(got.Recalled.Memories)+got.Recalled.LeftOut != len(found)) {
			t.Fatalf("budget %d: %d tokens, %+v", budget, got.Tokens, got.Recalled)
		}
	}
}
