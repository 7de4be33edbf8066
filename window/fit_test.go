package window_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/window"
)

var update = flag.Bool("update", false, "write the golden files anew")

// words counts words, so that golden files can be read.
func words(s string) int { return len(strings.Fields(s)) }

// events numbers messages from 1.
func events(data ...string) (out []window.Event) {
	for i, d := range data {
		out = append(out, window.Event{Seq: int64(i + 1), Data: json.RawMessage(d)})
	}
	return out
}

// talk is a conversation of n turns, each with a call of a tool.
func talk(n int) []window.Event {
	out := []string{`{"role":"system","content":"Be brief.","_note":"private"}`, `{"type":"tierd.created"}`}
	for i := range n {
		out = append(out,
			fmt.Sprintf(`{"role":"user","content":"question %d: %s","_trace":{"id":%d}}`, i, strings.Repeat("why ", 30), i),
			fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":"look_up","arguments":"{\"n\":%d,\"_secret\":1}"}}]}`, i, i),
			fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","name":"look_up","content":"result %d"}`, i, i),
			fmt.Sprintf(`{"role":"assistant","content":"answer %d"}`, i))
	}
	return events(out...)
}

func TestGolden(t *testing.T) {
	anthropicTalk := events(
		`{"role":"user","content":[{"type":"text","text":"Is 14C free?"},{"type":"image","source":{}}]}`,
		`{"role":"assistant","content":[{"type":"text","text":"Let me look."},{"type":"tool_use","id":"t1","name":"seat","input":{"n":"14C"}}]}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"free"}]}]}`,
		`{"role":"assistant","content":[{"type":"text","text":"It is."}]}`)
	for _, c := range []struct {
		name   string
		events []window.Event
		o      window.Options
	}{
		{"short", talk(2), window.Options{Budget: 1000}},
		{"shortened", talk(7), window.Options{Budget: 1000, Shorten: 20}},
		{"summarised", talk(14), window.Options{Budget: 1000, Shorten: 20}},
		{"tight", talk(14), window.Options{Budget: 460, Shorten: 20}},
		{"to_anthropic", talk(2), window.Options{Budget: 1000, Shape: window.Anthropic}},
		{"anthropic", anthropicTalk, window.Options{Budget: 1000, Shape: window.Anthropic}},
		{"anthropic_to_openai", anthropicTalk, window.Options{Budget: 1000}},
		{"resumed", talk(3), window.Options{Budget: 1000, Skipped: []tiering.Omitted{{From: 7, To: 10, How: "resumed over"}}}},
		{"a_pending_call", talk(1)[:4], window.Options{Budget: 1000}},
		{"an_orphan", talk(1)[4:], window.Options{Budget: 1000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Count = words
			got, err := window.Fit(c.events, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if got.Tokens > c.o.Budget {
				t.Errorf("%d tokens, the budget is %d", got.Tokens, c.o.Budget)
			}
			b, err := json.MarshalIndent(got, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", c.name+".json")
			if *update {
				if err := os.WriteFile(file, append(b, '\n'), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(want) != string(b)+"\n" {
				t.Errorf("the context is\n%s\nwant\n%s", b, want)
			}
		})
	}
}

// A budget that what has to stay does not fit is refused, and says what it takes.
func TestABudgetBelowTheTurnsToKeep(t *testing.T) {
	_, err := window.Fit(talk(8), window.Options{Budget: 100, Count: words})
	var e *tiering.Error
	if !errors.As(err, &e) || e.Status() != 422 || e.Pointer != "/budget" {
		t.Fatalf("the answer is %v", err)
	}
	if got, err := window.Fit(talk(8), window.Options{Budget: 100, KeepTurns: 1, Count: words}); err != nil || got.Tokens > 100 {
		t.Errorf("one turn fits: %+v, %v", got, err)
	}
}

// At every budget the context fits, or is refused; what has to stay is there, and
// each result is behind its call.
func TestEveryBudget(t *testing.T) {
	log := talk(20)
	for budget := 1; budget < 1500; budget += 7 {
		for _, shape := range []window.Shape{window.OpenAI, window.Anthropic} {
			got, err := window.Fit(log, window.Options{Budget: budget, Count: words, Shape: shape})
			if err != nil {
				if tiering.CodeOf(err) != tiering.CodeInvalid || budget > 400 {
					t.Fatalf("budget %d: %v", budget, err)
				}
				continue
			}
			if got.Tokens > budget {
				t.Fatalf("budget %d: %d tokens", budget, got.Tokens)
			}
			all := got.System
			called := map[string]bool{}
			for _, m := range got.Messages {
				all += string(m)
				for n := range 20 {
					id := fmt.Sprintf("c%d", n)
					switch s := string(m); {
					case strings.Contains(s, `"id":"`+id+`"`):
						called[id] = true
					case strings.Contains(s, `_id":"`+id+`"`) && !called[id]:
						t.Fatalf("budget %d: result %s without its call", budget, id)
					}
				}
			}
			for _, want := range []string{"Be brief.", "question 19", "question 15", "answer 19"} {
				if !strings.Contains(all, want) {
					t.Fatalf("budget %d: %q is missing", budget, want)
				}
			}
			if strings.Contains(all, "_trace") || strings.Contains(all, "_secret") || strings.Contains(all, "private") {
				t.Fatalf("budget %d: private members are there: %s", budget, all)
			}
		}
	}
}

func TestCounters(t *testing.T) {
	for encoding, want := range map[string]int{"": 4, "o200k_base": 4, "cl100k_base": 4, "r50k_base": 4} {
		count, err := window.Counter(encoding)
		if err != nil {
			t.Fatal(err)
		}
		if got := count("Hello, world!"); got != want || count("") != 0 {
			t.Errorf("%q counts %d, want %d", encoding, got, want)
		}
	}
	if _, err := window.Counter("words"); tiering.CodeOf(err) != tiering.CodeInvalid {
		t.Errorf("an unknown encoding: %v", err)
	}
}

// counted is words, and counts how much text was looked at.
type counted struct{ bytes int }

func (c *counted) words(s string) int {
	c.bytes += len(s)
	return words(s)
}

// What a summary costs to make grows with the log, not with its square.
func TestASummaryOfALongLog(t *testing.T) {
	looked := func(turns int) int {
		var c counted
		if _, err := window.Fit(talk(turns), window.Options{Budget: 2000, Count: c.words}); err != nil {
			t.Fatal(err)
		}
		return c.bytes
	}
	if short, long := looked(100), looked(1600); long > 2*short {
		t.Errorf("%d bytes were counted for 100 turns, %d for 1600", short, long)
	}
}

// What was not read is told, apart from what was summarised.
func TestWhatWasNotRead(t *testing.T) {
	log := talk(20)
	unread := tiering.Omitted{From: 11, To: 30, How: "dropped"}
	log = append(log[:10:10], log[30:]...)
	got, err := window.Fit(log, window.Options{Budget: 2000, Count: words, Unread: []tiering.Omitted{unread}})
	if err != nil {
		t.Fatal(err)
	}
	want := []tiering.Omitted{{From: 3, To: 10, How: "summarised"}, unread, {From: 31, To: 42, How: "summarised"}}
	if len(got.Omitted) < 3 || !slices.Equal(got.Omitted[:3], want) {
		t.Errorf("omitted: %+v, want %+v first", got.Omitted, want)
	}
}

// Events that say nothing to a model are told by their number; the assistant says
// nothing without words or calls, in either shape.
func TestEventsThatAreNoMessages(t *testing.T) {
	log := events(`{"type":"tierd.created"}`, `{"role":"user","content":"Is 14C free?"}`, `{"note":"looked"}`, `7`,
		`{"role":"assistant","content":""}`, `{"role":"assistant","content":null,"tool_calls":[]}`, `{"role":"assistant","content":"It is."}`)
	for _, shape := range []window.Shape{window.OpenAI, window.Anthropic} {
		got, err := window.Fit(log, window.Options{Budget: 100, Count: words, Shape: shape})
		if err != nil {
			t.Fatal(err)
		}
		if got.NotMessages != 4 || len(got.Messages) != 2 || !strings.Contains(string(got.Messages[1]), "It is.") {
			t.Errorf("%s: %d were none, the others are %s", shape, got.NotMessages, got.Messages)
		}
	}
}
