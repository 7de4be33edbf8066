package tiering_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tierd/tierd/tiering"
)

// tape is a watch that plays what it was given: an event's id, or an error.
type tape struct {
	tiering.Documents // nil: nothing else is called
	refused           error
	plays             []any
	closed            int
}

func (d *tape) Watch(context.Context, *tiering.WatchOptions) (tiering.Watcher, error) {
	if d.refused != nil {
		return nil, d.refused
	}
	return d, nil
}

func (d *tape) Next(ctx context.Context) (tiering.Event, error) {
	if len(d.plays) == 0 {
		<-ctx.Done()
		return tiering.Event{}, ctx.Err()
	}
	next := d.plays[0]
	d.plays = d.plays[1:]
	if err, ok := next.(error); ok {
		return tiering.Event{}, err
	}
	return tiering.Event{ID: next.(string)}, nil
}

func (d *tape) Close() error {
	d.closed++
	return nil
}

func TestEventsIterate(t *testing.T) {
	away, gone := tiering.Errorf(tiering.CodeUnavailable, "away"), tiering.Errorf(tiering.CodeGone, "too old")
	for _, c := range []struct {
		name  string
		tape  tape
		leave string // the event behind which the loop is left
		want  string
		ends  tiering.Code
	}{
		{"until the loop is left", tape{plays: []any{"1", "2", "3"}}, "2", "1 2", ""},
		{"through what passes", tape{plays: []any{"1", away, away, "2"}}, "2", "1 2", ""},
		{"until what stays", tape{plays: []any{"1", gone, "2"}}, "", "1", tiering.CodeGone},
		{"that is refused", tape{refused: away}, "", "", tiering.CodeUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen []string
				var last error
				for e, err := range tiering.Events(t.Context(), &c.tape, nil) {
					if last != nil {
						t.Fatalf("%v is yielded behind an error", e)
					}
					if last = err; err != nil {
						continue
					}
					if seen = append(seen, e.ID); e.ID == c.leave {
						break
					}
				}
				if got := strings.Join(seen, " "); got != c.want || last == nil != (c.ends == "") || last != nil && tiering.CodeOf(last) != c.ends {
					t.Errorf("it yields %q and %v, want %q and %q", got, last, c.want, c.ends)
				}
				if want := map[bool]int{true: 1, false: 0}[c.tape.refused == nil]; c.tape.closed != want {
					t.Errorf("the watch was closed %d times", c.tape.closed)
				}
			})
		})
	}
}

// The end of the context is an error like any other, also while a tier is away.
func TestEventsEndWithTheContext(t *testing.T) {
	away := make([]any, 1000)
	for i := range away {
		away[i] = tiering.Errorf(tiering.CodeUnavailable, "away")
	}
	for name, plays := range map[string][]any{"quiet": nil, "away": away} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					synctest.Wait()
					cancel()
				}()
				n := 0
				for _, err := range tiering.Events(ctx, &tape{plays: plays}, nil) {
					if n++; !errors.Is(err, context.Canceled) {
						t.Error(fmt.Errorf("it ends with %w", err))
					}
				}
				if n != 1 {
					t.Errorf("%d errors were yielded", n)
				}
			})
		})
	}
}
