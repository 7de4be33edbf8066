package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// TestStatementAgreesWithRules holds the statement that commits puts to the
// rules in Go: the same history, once through each, leaves the same heads.
func TestStatementAgreesWithRules(t *testing.T) {
	s, clock := fresh(t)
	histories := 0
	rapid.Check(t, func(rt *rapid.T) {
		histories++
		fast, slow := fmt.Sprint("fast", histories), fmt.Sprint("slow", histories)
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			clock.advance(time.Duration(rapid.IntRange(-1, 2).Draw(rt, "minutes")) * time.Minute)
			c := drawChange(rt)
			results := make([][]warm.Result, 2)
			for i, id := range []string{fast, slow} {
				c.Key.ID = id
				var err error
				if i == 0 || c.Rows[0].Op != tiering.OpPut {
					results[i], err = commitOne(s, c)
				} else {
					results[i], err = commitLocked(s, c)
				}
				if err != nil {
					rt.Fatal(err)
				}
			}
			same(rt, results[0], results[1])
			a, err := s.Load(context.Background(), noteKey(fast))
			if err != nil {
				rt.Fatal(err)
			}
			b, err := s.Load(context.Background(), noteKey(slow))
			if err != nil {
				rt.Fatal(err)
			}
			same(rt, []warm.Result{{Head: a.Head, Answer: a.Body}}, []warm.Result{{Head: b.Head, Answer: b.Body}})
		}
	})
}

// same compares results of two keys but for the ids.
func same(rt *rapid.T, a, b []warm.Result) {
	rt.Helper()
	for i := range a {
		a, b := a[i], b[i]
		a.Head.Key, b.Head.Key = tiering.Key{}, tiering.Key{}
		if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) {
			rt.Fatalf("row %d: the statement says\n%+v\nthe rules say\n%+v", i, a, b)
		}
	}
}

func drawChange(rt *rapid.T) warm.Change {
	c := warm.Change{Key: noteKey("")}
	switch rapid.IntRange(0, 5).Draw(rt, "if") {
	case 0:
		c.If = tiering.IfAbsent()
	case 1:
		c.If = tiering.IfExists()
	case 2:
		c.If = tiering.IfVersion(rapid.Int64Range(1, 9).Draw(rt, "version"))
	}
	op := rapid.SampledFrom([]tiering.Op{tiering.OpPut, tiering.OpPut, tiering.OpPut, tiering.OpDelete, tiering.OpPin, tiering.OpUnpin, tiering.OpExpire}).Draw(rt, "op")
	row := warm.Row{Op: op}
	rows := 1
	if op == tiering.OpPut {
		row = putRow(rapid.StringMatching(`"[a-z]{0,4}"`).Draw(rt, "body"))
		row.User = rapid.SampledFrom([]string{"", "", "ada", "bob"}).Draw(rt, "user")
		row.Query = rapid.Bool().Draw(rt, "query")
		rows = rapid.IntRange(1, 3).Draw(rt, "rows")
		switch rapid.IntRange(0, 3).Draw(rt, "expiry") {
		case 0:
			row.Expiry.TTL = &tiering.TTL{Life: time.Duration(rapid.IntRange(1, 3).Draw(rt, "life")) * time.Minute}
		case 1:
			row.Expiry.TTL = &tiering.TTL{None: true}
		case 2:
			row.Expiry.New, row.Expiry.Slide = time.Minute, rapid.Bool().Draw(rt, "slide")
		}
	}
	for range rows {
		c.Rows = append(c.Rows, row)
	}
	return c
}

func commitOne(s *Store, c warm.Change) ([]warm.Result, error) {
	results, err := s.Commit(context.Background(), &warm.Batch{ID: uuid.New(), Changes: []warm.Change{c}})
	if err != nil {
		return nil, err
	}
	return results[0], nil
}

// commitLocked commits a change the other way.
func commitLocked(s *Store, c warm.Change) ([]warm.Result, error) {
	results, committed, err := s.Atomic(context.Background(), uuid.New(), []tiering.Key{c.Key}, nil, func([]warm.Current) ([]warm.Change, error) {
		return []warm.Change{c}, nil
	})
	if err != nil || len(results) == 0 {
		return nil, fmt.Errorf("committed %t: %w", committed, err)
	}
	return results[0], nil
}
