package evaluate

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

// locomoCategories are the names of LoCoMo's kinds of questions (Maharana et
// al., 2024), by number.
var locomoCategories = map[int]string{1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}

type locomoSample struct {
	ID           string                     `json:"sample_id"`
	Conversation map[string]json.RawMessage `json:"conversation"`
	Questions    []struct {
		Question string          `json:"question"`
		Evidence json.RawMessage `json:"evidence"`
		Category int             `json:"category"`
	} `json:"qa"`
}

type locomoTurn struct {
	Speaker string `json:"speaker"`
	ID      string `json:"dia_id"`
	Text    string `json:"text"`
	Caption string `json:"blip_caption"`
}

// ReadLoCoMo reads LoCoMo's file. Questions without valid evidence are left out;
// with an audit of the labels (a JSON array of objects with a question_id such as
// locomo_0_qa1) also those it lists. Audit may be nil.
func ReadLoCoMo(file, audit io.Reader) (Set, error) {
	var samples []locomoSample
	if err := json.NewDecoder(file).Decode(&samples); err != nil {
		return Set{}, tiering.Invalidf("this is not LoCoMo's format: %v", err)
	}
	disputed := map[string]bool{}
	if audit != nil {
		var faults []struct {
			ID string `json:"question_id"`
		}
		if err := json.NewDecoder(audit).Decode(&faults); err != nil {
			return Set{}, tiering.Invalidf("this is no audit of LoCoMo's labels: %v", err)
		}
		for _, f := range faults {
			disputed[f.ID] = true
		}
	}
	var set Set
	for n, s := range samples {
		c := Conversation{ID: s.ID}
		var err error
		if c.Memories, err = s.memories(); err != nil {
			return Set{}, err
		}
		known := map[string]bool{}
		for _, m := range c.Memories {
			known[m.ID] = true
		}
		for i, q := range s.Questions {
			id := fmt.Sprintf("locomo_%d_qa%d", n, i)
			evidence := slices.DeleteFunc(turnIDs(string(q.Evidence)), func(id string) bool { return !known[id] })
			switch {
			case disputed[id]:
				set.Disputed++
			case len(evidence) == 0:
				set.Unanswerable++
			default:
				c.Questions = append(c.Questions, Question{ID: id, Text: q.Question, Evidence: evidence, Category: locomoCategory(q.Category)})
			}
		}
		set.Conversations = append(set.Conversations, c)
	}
	return set, nil
}

func locomoCategory(n int) string {
	if name, ok := locomoCategories[n]; ok {
		return name
	}
	return strconv.Itoa(n)
}

var sessionName = regexp.MustCompile(`^session_(\d+)$`)

// memories returns the turns of all sessions, in order.
func (s locomoSample) memories() ([]Memory, error) {
	var sessions []int
	for name := range maps.Keys(s.Conversation) {
		if m := sessionName.FindStringSubmatch(name); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				return nil, tiering.Invalidf("the session %q of %s has no number", name, s.ID)
			}
			sessions = append(sessions, n)
		}
	}
	slices.Sort(sessions)
	var out []Memory
	for _, n := range sessions {
		name := fmt.Sprintf("session_%d", n)
		var turns []locomoTurn
		if err := json.Unmarshal(s.Conversation[name], &turns); err != nil {
			return nil, tiering.Invalidf("%s of %s is no list of turns: %v", name, s.ID, err)
		}
		var at string
		if raw, ok := s.Conversation[name+"_date_time"]; ok {
			if err := json.Unmarshal(raw, &at); err != nil {
				return nil, tiering.Invalidf("the time of %s of %s is no text: %v", name, s.ID, err)
			}
		}
		for _, t := range turns {
			m := Memory{ID: t.ID, Text: t.Text, Speaker: t.Speaker, Session: name, Time: locomoTime(at)}
			if t.Caption != "" {
				m.Text += " " + t.Caption
			}
			out = append(out, m)
		}
	}
	return out, nil
}

// locomoTime reads "1:56 pm on 8 May, 2023"; zero when it is something else.
func locomoTime(s string) time.Time {
	t, err := time.Parse("3:04 pm on 2 January, 2006", strings.TrimSpace(s))
	if err != nil {
		return time.Time{}
	}
	return t
}

var turnID = regexp.MustCompile(`D:?(\d+):(\d+)`)

// turnIDs finds the turns in an evidence field, which are written in several
// ways: "D8:6; D9:17", "D30:05", "D:11:26".
func turnIDs(evidence string) []string {
	var out []string
	for _, m := range turnID.FindAllStringSubmatch(evidence, -1) {
		session, err := strconv.Atoi(m[1])
		if err != nil {
			continue
		}
		turn, err := strconv.Atoi(m[2])
		if err != nil {
			continue
		}
		if id := fmt.Sprintf("D%d:%d", session, turn); !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
