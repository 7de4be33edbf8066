package replay_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// session is one conversation: the document of step n holds its first n
// messages, as an agent framework would put it again after each.
type session struct {
	id       string
	owner    string // what its user is chosen by
	messages []json.RawMessage
	docs     [][]byte
}

// again is the same conversation, held once more by the same user.
func (s session) again(t *testing.T, round int) session {
	t.Helper()
	out, err := newSession(fmt.Sprintf("%s-again-%d", s.id, round), s.messages)
	if err != nil {
		t.Fatal(err)
	}
	out.owner = s.id
	return out
}

func newSession(id string, messages []json.RawMessage) (session, error) {
	s := session{id: id, owner: id, messages: messages}
	for n := range messages {
		doc, err := json.Marshal(struct {
			Session  string            `json:"session"`
			Messages []json.RawMessage `json:"messages"`
		}{id, messages[:n+1]})
		if err != nil {
			return s, err
		}
		// The daemon keeps compacted bytes; Marshal has compacted them, and
		// escaped what HTML would mind.
		s.docs = append(s.docs, doc)
	}
	return s, nil
}

// readSessions reads JSON lines of {"session", "messages"}.
func readSessions(t *testing.T, path string) []session {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []session
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var row struct {
			Session  string            `json:"session"`
			Messages []json.RawMessage `json:"messages"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatalf("%s line %d: %v", path, len(out)+1, err)
		}
		s, err := newSession(row.Session, row.Messages)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// writtenSessions makes conversations of our own: a desk that books rooms.
func writtenSessions(t *testing.T, count, turns int) []session {
	t.Helper()
	rooms := []string{"the blue room by the lake", "a quiet room over the yard", "the attic with two beds", "a corner room with a desk"}
	asks := []string{"could you hold %s from the %dth?", "what does %s cost for %d nights?", "please move my stay in %s by %d days"}
	var out []session
	for i := range count {
		messages := []json.RawMessage{json.RawMessage(`{"role":"system","content":"` + strings.Repeat("You take bookings for a small inn. Be brief, never promise what is not free. ", 12) + `"}`)}
		for n := range turns {
			room := rooms[(i+n)%len(rooms)]
			text := fmt.Sprintf(asks[(i*7+n)%len(asks)], room, 2+(i+n)%20)
			switch n % 4 {
			case 0:
				messages = append(messages, json.RawMessage(fmt.Sprintf(`{"role":"user","content":%q}`, text)))
			case 1:
				messages = append(messages, json.RawMessage(fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d_%d","name":"free_rooms","arguments":{"room":%q,"guests":%d}}]}`, i, n, room, 1+n%3)))
			case 2:
				messages = append(messages, json.RawMessage(fmt.Sprintf(`{"role":"tool","id":"call_%d_%d","content":{"free":true,"price":%d.50,"note":"\u0000 from a till"}}`, i, n-1, 80+n)))
			default:
				messages = append(messages, json.RawMessage(fmt.Sprintf(`{"role":"assistant","content":"Yes, %s is free. Shall I book it?"}`, room)))
			}
		}
		s, err := newSession(fmt.Sprintf("stay-%03d", i), messages)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func rawBytes(sessions []session) (versions int, bytes int64) {
	for _, s := range sessions {
		for _, d := range s.docs {
			versions++
			bytes += int64(len(d))
		}
	}
	return versions, bytes
}

func sameBytes(a, b []byte) bool { return bytes.Equal(a, b) }
