package window_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/window"
)

// A model's summary stands in place of the extractive one; what it does not cover yet
// follows it as lines, and what it is too long for is cut.
func TestASummaryOfAModel(t *testing.T) {
	const all = 18 // the last entry of the turns that are summarised
	for _, c := range []struct {
		name  string
		made  window.Made
		holds []string
		lacks []string
		told  tiering.ContextSummary
	}{
		{"all of it", window.Made{Text: "They talked.", To: all}, []string{`so far:\nThey talked.`}, []string{"Since then", "question 0"},
			tiering.ContextSummary{Kind: "model", From: 3, To: all, ModelTo: all}},
		{"the newest turns not yet", window.Made{Text: "They talked.", To: 10}, []string{"They talked.", `Since then:\n- user: question 2`, "answer 3"}, []string{"question 1:"},
			tiering.ContextSummary{Kind: "model", From: 3, To: all, ModelTo: 10}},
		{"none", window.Made{Reason: "it fails"}, []string{"Summary of 4 earlier turns"}, nil,
			tiering.ContextSummary{Kind: "extractive", From: 3, To: all, Reason: "it fails"}},
		{"far too long", window.Made{Text: strings.Repeat("word ", 5000), To: all}, []string{"word word", "…"}, nil,
			tiering.ContextSummary{Kind: "model", From: 3, To: all, ModelTo: all}},
		{"far too long, and not all", window.Made{Text: strings.Repeat("word ", 5000), To: 10}, []string{"word…", "answer 3"}, nil,
			tiering.ContextSummary{Kind: "model", From: 3, To: all, ModelTo: 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := window.Fit(talk(14), window.Options{Budget: 2000, Count: words, Summarise: func(o window.Older) window.Made {
				if o.From() != 3 || o.To() != all || o.Turns() != 4 {
					t.Errorf("it is asked for %d to %d, %d turns", o.From(), o.To(), o.Turns())
				}
				return c.made
			}})
			if err != nil {
				t.Fatal(err)
			}
			text := string(got.Messages[1])
			for _, s := range c.holds {
				if !strings.Contains(text, s) {
					t.Errorf("%q is not in %s", s, text)
				}
			}
			for _, s := range c.lacks {
				if strings.Contains(text, s) {
					t.Errorf("%q is in %s", s, text)
				}
			}
			if got.Summary.Tokens < 4 || got.Summary.Tokens > 400 || got.Tokens > 2000 {
				t.Errorf("it takes %d tokens of %d", got.Summary.Tokens, got.Tokens)
			}
			if c.told.Tokens = got.Summary.Tokens; *got.Summary != c.told {
				t.Errorf("it tells of %+v, want %+v", *got.Summary, c.told)
			}
		})
	}
}

// Whatever a model answers and however much of it is missing, every budget holds.
func TestNoSummaryBreaksABudget(t *testing.T) {
	log := talk(20)
	for _, text := range []string{"short", strings.Repeat("word ", 3000), strings.Repeat("x", 9000), strings.Repeat("é \n", 2000)} {
		for budget := 300; budget < 1100; budget += 13 {
			for _, to := range []int64{6, 22, 1000} {
				got, err := window.Fit(log, window.Options{Budget: budget, Count: words, Summarise: func(window.Older) window.Made { return window.Made{Text: text, To: to} }})
				if err != nil {
					continue
				}
				if got.Tokens > budget || got.Summary != nil && got.Summary.Tokens > 400 {
					t.Fatalf("budget %d: %d tokens, %+v", budget, got.Tokens, got.Summary)
				}
			}
		}
	}
}

// What a model is shown has no private members and no recalled memories, which are
// not the session's to keep; it is bounded, and is parted at turns.
func TestWhatAModelIsShown(t *testing.T) {
	log := talk(14)
	log[4].Data = []byte(`{"role":"tool","tool_call_id":"c0","name":"look_up","content":"{\"found\":1,\"_token\":\"hidden\"}"}`)
	log[2].Data = []byte(`{"role":"user","content":"question 0: ` + strings.Repeat("why ", 2000) + `","_secret":1}`)
	asked := 0
	recalled := &tiering.Recalled{Matches: []tiering.Match{memory("zebra", 2)}}
	_, err := window.Fit(log, window.Options{Budget: 3000, Count: words, Shorten: 20, Recalled: recalled, Summarise: func(o window.Older) window.Made {
		asked++
		whole, to := o.Talk(1 << 20)
		if to != o.To() || !strings.Contains(whole, "question 3") || !strings.Contains(whole, "assistant calls look_up {\"n\":3}") || !strings.Contains(whole, `result: {"found":1}`) {
			t.Errorf("to %d: %s", to, whole)
		}
		for _, hidden := range []string{"_secret", "_token", "hidden", "_trace", "question 4", "Be brief", "zebra"} {
			if strings.Contains(whole, hidden) {
				t.Errorf("%q is shown: %s", hidden, whole)
			}
		}
		if len(whole) > 5000 {
			t.Errorf("a long message makes %d bytes", len(whole))
		}
		var parts string
		for rest := o; rest.Turns() > 0; {
			part, to := rest.Talk(600)
			if len(part) > 600 || to < rest.From() {
				t.Fatalf("%d bytes up to %d", len(part), to)
			}
			parts += part
			rest = rest.Behind(to)
		}
		for n := range 4 {
			if !strings.Contains(parts, fmt.Sprint("question ", n)) {
				t.Errorf("question %d is in no part: %s", n, parts)
			}
		}
		return window.Made{}
	}})
	if err != nil || asked != 1 {
		t.Fatalf("asked %d times, %v", asked, err)
	}
}
