package tiering

import (
	"context"
	"errors"
	"time"
)

// ConsumerNamespace is where named consumers are kept; id: the name. No watch
// shows it: a consumer of everything would see its own acknowledgements.
const ConsumerNamespace = "tierd.consumers"

// Consumers are places in the feed that are kept under names, so that a worker
// goes on where it acknowledged, whichever daemon or process it is. A watch with
// WatchOptions.Consumer makes one, with what it watches, at the position where it
// begins; from then on the position moves by Acknowledge alone. Until an event is
// acknowledged each new watch of the consumer brings it again: at least once.
//
// A consumer belongs to the limits (namespaces, prefixes, user) of the API key
// that made it: keys of the same limits use it, a key without limits lists and
// deletes it too. It never holds the feed back: one that falls behind what the
// feed keeps is gone, and has to be deleted and made anew.
type Consumers interface {
	// Consumers lists them by name.
	Consumers(ctx context.Context) ([]Consumer, error)
	Consumer(ctx context.Context, name string) (*Consumer, error)
	// Acknowledge moves the position to an event, by its ID, or to the position of
	// a watcher. One that it is behind already changes nothing, so it may be sent
	// again.
	Acknowledge(ctx context.Context, name, event string) (*Consumer, error)
	// DeleteConsumer forgets one. Deleting what is not there succeeds.
	DeleteConsumer(ctx context.Context, name string) error
}

// Consumer is a named place in the feed.
type Consumer struct {
	Name string `json:"name"`
	// What it watches, as in WatchOptions; empty: everything.
	Namespace string `json:"namespace,omitempty"`
	Prefix    string `json:"prefix,omitempty"`
	ID        string `json:"id,omitempty"`
	User      string `json:"user,omitempty"`
	Session   string `json:"session,omitempty"`

	Position string `json:"position"` // the event acknowledged last, or where it began
	// Behind is how many transactions, of everybody, were committed since, those
	// that acknowledge among them: what waits is no more. It is near 0, not always
	// 0, while the consumer keeps up.
	Behind int64 `json:"behind"`
	// Gone says that the feed no longer keeps what comes next.
	Gone           bool      `json:"gone,omitempty"`
	CreatedAt      time.Time `json:"created_at"`
	AcknowledgedAt time.Time `json:"acknowledged_at,omitzero"` // zero: never
}

// idleAcknowledge is how long a consumer sees nothing before it acknowledges how
// far the feed was searched for it, where that has moved.
const idleAcknowledge = 5 * time.Second

// lastAcknowledge bounds the acknowledgement behind the end of Consume's context.
const lastAcknowledge = 5 * time.Second

// Consume hands the events of the consumer that o names to fn, one at a time and
// in order, and acknowledges each that fn took without an error. Acknowledgements
// run behind: while one is under way, those that follow become one. Consume ends
// with fn's error, what ends a watch, or the end of ctx, and has by then
// acknowledged what was taken, if that was possible. What was not comes again. On a
// quiet stream it acknowledges every few seconds how far the feed was searched,
// where others' writes have moved that.
func Consume(ctx context.Context, s interface {
	Documents
	Consumers
}, o *WatchOptions, fn func(Event) error) error {
	if o == nil || o.Consumer == "" {
		return Invalidf("consumer: name it")
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w, err := s.Watch(ctx, o)
	if err != nil {
		return err
	}
	defer w.Close()
	a := &acknowledger{s: s, name: o.Consumer, newest: make(chan string, 1), ended: make(chan struct{})}
	go a.run(ctx, stop)
	err = each(ctx, w, a, fn)
	refused := context.Cause(ctx) == errRefused
	stop(nil) // what is left to acknowledge has the time of the last one
	close(a.newest)
	<-a.ended
	if refused {
		return a.err // what ended each
	}
	return errors.Join(err, a.err)
}

// errRefused is why a consuming ended whose acknowledgements are refused.
var errRefused = errors.New("an acknowledgement was refused")

// each hands on events until one of them, or ctx, ends it.
func each(ctx context.Context, w Watcher, a *acknowledger, fn func(Event) error) error {
	told := ""
	for {
		brief, cancel := context.WithTimeout(ctx, idleAcknowledge)
		e, err := nextEvent(brief, w)
		idle := brief.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err != nil && idle:
			if at, ok := w.(interface{ Position() string }); ok && at.Position() != told {
				told = at.Position()
				a.taken(told)
			}
			continue
		case err != nil:
			return err
		}
		if err := fn(e); err != nil {
			return err
		}
		a.taken(e.ID)
	}
}

// acknowledger acknowledges the newest event that was taken.
type acknowledger struct {
	s      Consumers
	name   string
	newest chan string   // holds one: the newest that waits
	ended  chan struct{} // closed when run has ended
	err    error         // why it could not; read after ended
}

// taken has one caller.
func (a *acknowledger) taken(event string) {
	select {
	case <-a.newest: // the new one stands for it
	default:
	}
	a.newest <- event
}

// run acknowledges until newest is closed. What cannot be acknowledged ends the
// consuming by stop.
func (a *acknowledger) run(ctx context.Context, stop context.CancelCauseFunc) {
	defer close(a.ended)
	for event := range a.newest {
		if a.err != nil {
			continue
		}
		if err := a.acknowledge(ctx, event); err != nil {
			a.err = err
			stop(errRefused)
		}
	}
}

// acknowledge tries as long as ctx lives, and for a moment behind its end.
func (a *acknowledger) acknowledge(ctx context.Context, event string) error {
	err := a.try(ctx, event)
	if ctx.Err() == nil {
		return err
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAcknowledge)
	defer cancel()
	return a.try(last, event)
}

// try acknowledges until that is done or refused, or ctx ends.
func (a *acknowledger) try(ctx context.Context, event string) error {
	for delay := watchMinDelay; ; delay = min(2*delay, watchMaxDelay) {
		_, err := a.s.Acknowledge(ctx, a.name, event)
		if err == nil || !Retryable(err) || pause(ctx, delay) != nil {
			return err
		}
	}
}
