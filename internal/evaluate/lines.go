package evaluate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tierd/tierd/tiering"
)

// line is one line of a file of one's own. It is a memory if it has text, a
// question if it has one.
type line struct {
	Conversation string     `json:"conversation"`
	ID           string     `json:"id"`
	Text         string     `json:"text"`
	Speaker      string     `json:"speaker"`
	Session      string     `json:"session"`
	Time         *time.Time `json:"time"`
	Question     string     `json:"question"`
	Evidence     []string   `json:"evidence"`
	Category     string     `json:"category"`
}

// ReadLines reads JSON lines, a memory or a question each:
//
//	{"conversation":"c1","id":"1","text":"I moved to Lyon.","speaker":"Ann","session":"s1","time":"2026-03-01T10:00:00Z"}
//	{"conversation":"c1","question":"Where does Ann live?","evidence":["1"],"category":"single-hop"}
//
// Everything but id and text, question and evidence may be left out. Memories are
// remembered in the order of the file. Evidence that is no memory of the
// conversation is an error, as is an unknown field; an empty line is not.
func ReadLines(file io.Reader) (Set, error) {
	var set Set
	at := map[string]int{}
	lines := bufio.NewReader(file)
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return Set{}, err
		}
		if fault := set.read(text, at); fault != nil {
			return Set{}, tiering.Invalidf("line %d: %v", n, fault)
		}
		if err != nil {
			break
		}
	}
	for _, c := range set.Conversations {
		if err := c.check(); err != nil {
			return Set{}, tiering.Invalidf("%v", err)
		}
	}
	return set, nil
}

// read takes one line. At has the place of each conversation.
func (s *Set) read(text []byte, at map[string]int) error {
	var l line
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one JSON value")
	}
	i, ok := at[l.Conversation]
	if !ok {
		i = len(s.Conversations)
		at[l.Conversation] = i
		s.Conversations = append(s.Conversations, Conversation{ID: l.Conversation})
	}
	c := &s.Conversations[i]
	switch {
	case (l.Text == "") == (l.Question == ""):
		return errors.New("it needs either text or question")
	case l.Text != "" && l.ID == "":
		return errors.New("a memory needs an id")
	case l.Text != "":
		m := Memory{ID: l.ID, Text: l.Text, Speaker: l.Speaker, Session: l.Session}
		if l.Time != nil {
			m.Time = *l.Time
		}
		c.Memories = append(c.Memories, m)
	case len(l.Evidence) == 0:
		s.Unanswerable++
	default:
		id := l.ID
		if id == "" {
			id = fmt.Sprintf("%s_q%d", l.Conversation, len(c.Questions))
		}
		c.Questions = append(c.Questions, Question{ID: id, Text: l.Question, Evidence: l.Evidence, Category: l.Category})
	}
	return nil
}

// check holds the IDs of a conversation against each other.
func (c Conversation) check() error {
	known := map[string]bool{}
	for _, m := range c.Memories {
		if known[m.ID] {
			return fmt.Errorf("conversation %q has the memory %q twice", c.ID, m.ID)
		}
		known[m.ID] = true
	}
	for _, q := range c.Questions {
		for _, id := range q.Evidence {
			if !known[id] {
				return fmt.Errorf("question %q of conversation %q has the evidence %q, which is no memory", q.ID, c.ID, id)
			}
		}
	}
	return nil
}
