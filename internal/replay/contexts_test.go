package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/window"
)

// chat is a message of a context, or of a session, in the shape of chat
// completions.
type chat struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	CallID    string `json:"tool_call_id"`
	ToolCalls []struct {
		ID       string `json:"id"`
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

func chats(t *testing.T, rows []json.RawMessage) (out []chat) {
	t.Helper()
	for _, row := range rows {
		var c chat
		if err := json.Unmarshal(row, &c); err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// tokens are those of the texts of messages, counted apart from the daemon.
func tokens(count func(string) int, messages []chat) (n int) {
	for _, m := range messages {
		n += count(m.Content)
		for _, c := range m.ToolCalls {
			n += count(c.Function.Name) + count(c.Function.Arguments)
		}
	}
	return n
}

// lastTurn is where the last turn of a conversation begins.
func lastTurn(messages []chat) int {
	for i := len(messages) - 1; i > 0; i-- {
		if messages[i].Role == "user" {
			return i
		}
	}
	return 0
}

// checkContexts makes contexts of every session at three budgets: each fits, has
// the system message and the last turn of the user, and no result without its
// call. A context is only refused where what has to stay takes more.
func (f *fleet) checkContexts(ctx context.Context, t *testing.T, sessions []session) {
	t.Helper()
	count, err := window.Counter("")
	if err != nil {
		t.Fatal(err)
	}
	for _, budget := range []int{1_000, 4_000, 16_000} {
		made, fewer, refused, taken := 0, 0, 0, 0
		for i, s := range sessions {
			said := chats(t, s.messages)
			var got *tiering.SessionContext
			var err error
			for keep := 5; keep > 0; keep-- {
				got, err = f.clients[i%2].Sessions().Context(ctx, s.id, &tiering.ContextOptions{Budget: budget, KeepTurns: keep})
				if err == nil && keep < 5 {
					fewer++
				}
				if err == nil || !tooSmall(err) {
					break
				}
			}
			if tooSmall(err) {
				refused++
				// What a template puts around messages counts too: a few tokens each.
				if stays := append([]chat{said[0]}, said[lastTurn(said):]...); tokens(count, stays)+12*len(stays) < budget {
					t.Errorf("%s at %d tokens: %v", s.id, budget, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s at %d tokens: %v", s.id, budget, err)
				continue
			}
			made, taken = made+1, taken+got.Tokens
			checkContext(t, s.id, budget, said, chats(t, got.Messages), got.Tokens, count)
		}
		t.Logf("contexts of %d tokens: %d made, of %d tokens on average, %d of them with fewer than 5 turns whole; %d refused, whose system message and last turn take more",
			budget, made, taken/max(made, 1), fewer, refused)
	}
}

func tooSmall(err error) bool {
	var e *tiering.Error
	return errors.As(err, &e) && e.Pointer == "/budget"
}

func checkContext(t *testing.T, id string, budget int, said, got []chat, told int, count func(string) int) {
	t.Helper()
	if own := tokens(count, got); own > told || told > budget {
		t.Errorf("%s at %d tokens: it says %d, the texts take %d", id, budget, told, own)
	}
	if got[0].Role != "system" || got[0].Content != said[0].Content {
		t.Errorf("%s at %d tokens: it begins with %.80v", id, budget, got[0])
	}
	user := said[lastTurn(said)]
	found := false
	called := map[string]bool{}
	for _, m := range got {
		found = found || m.Role == "user" && m.Content == user.Content
		for _, c := range m.ToolCalls {
			called[c.ID] = true
		}
		if m.Role == "tool" && !called[m.CallID] {
			t.Errorf("%s at %d tokens: the result %s has no call before it", id, budget, m.CallID)
		}
	}
	if !found {
		t.Errorf("%s at %d tokens: the last turn of the user is missing", id, budget)
	}
}
