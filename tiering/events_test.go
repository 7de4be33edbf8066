package tiering_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierd/tierd/tiering"
)

// tape is a watch that plays what it was given: an event's id, or an error.
type tape struct {
	tiering.Documents // nil: nothing else is called
	refused           error
	plays             []any
	closed            int
}

func (d *desk) Watch(context.Context, *tiering.WatchOptions) (tiering.Watcher, error) { return d, nil }

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

// desk is a service that plays a tape and takes acknowledgements.
type desk struct {
	tape
	consumers // nil: nothing else is called
	mu        sync.Mutex
	answers   []error // of acknowledgements, in their order; then nil
	taken     []string
}

// consumers has a name of its own, which no method has.
type consumers = tiering.Consumers

func (d *desk) Acknowledge(ctx context.Context, _, event string) (*tiering.Consumer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(d.answers) > 0 {
		err := d.answers[0]
		d.answers = d.answers[1:]
		if err != nil {
			return nil, err
		}
	}
	d.taken = append(d.taken, event)
	return &tiering.Consumer{Position: event}, nil
}

func (d *desk) Position() string { return "idle" }

func TestConsumeAcknowledges(t *testing.T) {
	away, gone, died := tiering.Errorf(tiering.CodeUnavailable, "away"), tiering.Errorf(tiering.CodeNotFound, "deleted"), errors.New("died")
	for _, c := range []struct {
		name    string
		plays   []any
		answers []error
		dies    string // the event over which the caller dies
		last    string // what was acknowledged last
		ends    error
	}{
		{"what was taken, not what was not", []any{"1", "2", "3"}, nil, "3", "2", died},
		{"nothing of the first", []any{"1"}, nil, "1", "", died},
		{"again while the node is away", []any{"1", "2"}, []error{away, away, away}, "2", "1", died},
		{"until it is refused", []any{"1"}, []error{gone}, "", "", gone},
		{"how far a quiet feed was searched", []any{"1"}, nil, "", "idle", context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 150*time.Minute)
				defer cancel()
				d := &desk{tape: tape{plays: c.plays}, answers: c.answers}
				err := tiering.Consume(ctx, d, &tiering.WatchOptions{Consumer: "worker"}, func(e tiering.Event) error {
					if e.ID == c.dies {
						return died
					}
					return nil
				})
				last := ""
				if n := len(d.taken); n > 0 {
					last = d.taken[n-1]
				}
				if !errors.Is(err, c.ends) || last != c.last || d.closed != 1 {
					t.Errorf("it ends with %v behind %v, want %v behind %q; closed %d times", err, d.taken, c.ends, c.last, d.closed)
				}
			})
		})
	}
	if err := tiering.Consume(t.Context(), &desk{}, nil, nil); tiering.CodeOf(err) != tiering.CodeInvalid {
		t.Errorf("without a name: %v", err)
	}
}
