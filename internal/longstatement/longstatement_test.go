package longstatement

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// When a statement is given up, by what the server says at each look.
func TestWhenAStatementIsGivenUp(t *testing.T) {
	working, idle, nobody := Sight{There: true, Working: true}, Sight{There: true}, Sight{}
	away := errors.New("no answer")
	for _, c := range []struct {
		name  string
		looks []any // the last goes on
		after time.Duration
		given bool
	}{
		{"at work for hours", []any{working}, 20 * time.Hour, false},
		{"idle between two statements", []any{working, idle, idle, working}, time.Hour, false},
		{"idle from the beginning", []any{idle}, 2 * Every, true},
		{"not there any more", []any{working, nobody}, 3 * Every, true},
		{"a server that does not answer says nothing", []any{working, away}, 20 * time.Hour, false},
		{"until it answers again", []any{working, away, away, idle}, 5 * Every, true},
		{"behind a pooler that keeps names", []any{nobody}, unseenFor, true},
		{"which is not known at once", []any{nobody, nobody, nobody, working}, 20 * time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, give := context.WithCancelCause(t.Context())
				began, n := time.Now(), 0
				done := make(chan time.Duration)
				go func() {
					watch(ctx, give, Every, func(context.Context) (Sight, error) {
						said := c.looks[min(n, len(c.looks)-1)]
						n++
						if err, ok := said.(error); ok {
							return Sight{}, err
						}
						return said.(Sight), nil
					})
					done <- time.Since(began)
				}()
				select {
				case after := <-done:
					if !c.given || after != c.after || !errors.Is(context.Cause(ctx), ErrSilent) {
						t.Errorf("given up after %v: %v", after, context.Cause(ctx))
					}
				case <-time.After(c.after + Every/2):
					if c.given {
						t.Errorf("not given up after %v", c.after)
					}
					give(nil)
					<-done
				}
			})
		})
	}
}
