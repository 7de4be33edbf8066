// Package evaluate measures recall: what share of the memories that hold the
// answer to a question is among the first k that come back. No model judges.
//
// It reads LoCoMo's files and JSON lines of one's own (see ReadLines), remembers
// one memory a turn, and asks every question of a Searcher.
package evaluate

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

// Conversation is memories, and questions that some of them answer.
type Conversation struct {
	ID        string
	Memories  []Memory // in the order in which they are remembered
	Questions []Question
}

// Memory is one turn.
type Memory struct {
	ID      string // unique within the conversation
	Text    string
	Speaker string // empty where nobody is named
	Session string
	Time    time.Time // zero where it is not known
}

// Question is a question with the memories that hold its answer.
type Question struct {
	ID       string
	Text     string
	Evidence []string // IDs of memories; never empty
	Category string
}

// End is the time of the last memory, at which the questions are asked; zero
// when no time is known.
func (c Conversation) End() time.Time {
	var end time.Time
	for _, m := range c.Memories {
		if m.Time.After(end) {
			end = m.Time
		}
	}
	return end
}

// Set is what was read from a file.
type Set struct {
	Conversations []Conversation
	// Unanswerable is how many questions were left out since no memory holds
	// their answer, Disputed how many since their labels are known to be wrong.
	Unanswerable, Disputed int
}

// Questions returns how many are asked.
func (s Set) Questions() int {
	n := 0
	for _, c := range s.Conversations {
		n += len(c.Questions)
	}
	return n
}

// Read reads a file by its name: .jsonl is ReadLines, everything else LoCoMo's
// format. Errors, a file of LoCoMo's audit, names labels to leave out; empty
// leaves out none.
func Read(path, errors string) (Set, error) {
	file, err := os.Open(path)
	if err != nil {
		return Set{}, err
	}
	defer file.Close()
	if strings.EqualFold(filepath.Ext(path), ".jsonl") {
		if errors != "" {
			return Set{}, tiering.Invalidf("label errors are known for LoCoMo's format alone")
		}
		return ReadLines(file)
	}
	if errors == "" {
		return ReadLoCoMo(file, nil)
	}
	audit, err := os.Open(errors)
	if err != nil {
		return Set{}, err
	}
	defer audit.Close()
	return ReadLoCoMo(file, audit)
}
