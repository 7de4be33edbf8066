package replay_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/tiering"
)

// tenAgents: ten agents append ten messages a second each to one session. Every
// message is there once, each agent's in its order, under dense numbers.
func (f *fleet) tenAgents(ctx context.Context, t *testing.T) {
	const agents, each, every = 10, 30, 100 * time.Millisecond
	all := f.clients[0].Sessions()
	if _, err := all.Create(ctx, &tiering.NewSession{ID: "shared"}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var acked atomic.Int64
	began := time.Now()
	for a := range agents {
		wg.Go(func() {
			ticks := time.NewTicker(every)
			defer ticks.Stop()
			for n := range each {
				<-ticks.C
				o := &tiering.SessionWrite{IdempotencyKey: fmt.Sprintf("shared-%d-%d", a, n)}
				event := []json.RawMessage{fmt.Appendf(nil, `{"agent":%d,"n":%d}`, a, n)}
				if _, err := anywhere(ctx, f, a, func(s tiering.Sessions) (*tiering.SessionAppended, error) {
					return s.Append(ctx, "shared", event, nil, o)
				}); err != nil {
					t.Errorf("agent %d, message %d: %v", a, n, err)
					return
				}
				acked.Add(1)
			}
		})
	}
	for acked.Load() < agents*each/2 && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	f.killOne(0)
	f.startOne(0)
	wg.Wait()
	t.Logf("%d messages of %d agents in %v", acked.Load(), agents, time.Since(began).Round(time.Millisecond))
	next := [agents]int{}
	after := int64(1) // behind the entry that made the session
	for more := true; more; {
		page, err := all.Events(ctx, "shared", &tiering.EntriesOptions{After: after, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			var m struct{ Agent, N int }
			if err := json.Unmarshal(e.Data, &m); err != nil || e.Seq != after+1 || m.N != next[m.Agent] {
				t.Fatalf("entry %d behind %d is message %d of agent %d, want its %d; %v", e.Seq, after, m.N, m.Agent, next[m.Agent], err)
			}
			after, next[m.Agent] = e.Seq, m.N+1
		}
		more = page.More
	}
	for a, n := range next {
		if n != each {
			t.Errorf("of agent %d there are %d messages, want %d", a, n, each)
		}
	}
}

// Where a job and the daemon that it asks die together.
var deaths = []string{
	"before a claim", "over a claim", "behind a claim", "behind the work", "over a completion", "behind a completion",
}

var errDied = errors.New("the job died")

// job is one run of three steps through one daemon. It dies, and takes the daemon
// along, at a place of one of its steps.
type job struct {
	f       *fleet
	session string
	daemon  int
	step    int    // the step over which it dies; -1: it lives
	death   string // where
	ran     map[string]int
	unknown []string
	replied map[string]string // outputs that were answered
}

func (j *job) die(step int, at string) bool {
	if step != j.step || at != j.death {
		return false
	}
	j.f.killOne(j.daemon)
	return true
}

// dying cuts a call off by killing the daemon while it is under way.
func (j *job) dying(step int, at string) func() {
	if step != j.step || at != j.death {
		return func() {}
	}
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		time.Sleep(time.Duration(step) * time.Millisecond) // another moment of the call each time
		j.f.killOne(j.daemon)
	}()
	return func() { <-killed }
}

// run does the steps that have to be done, and reports what it cannot know. A dead
// job hears of nothing any more.
func (j *job) run(ctx context.Context) error {
	all := j.f.clients[j.daemon].Sessions()
	for n := range 3 {
		name := "step-" + strconv.Itoa(n)
		if j.die(n, "before a claim") {
			return errDied
		}
		over := j.dying(n, "over a claim")
		s, err := all.Step(ctx, j.session, name, nil, &tiering.SessionWrite{IdempotencyKey: j.session + name + "claim" + strconv.Itoa(j.daemon)})
		over()
		if j.step == n && j.death == "over a claim" || j.die(n, "behind a claim") {
			return errDied
		}
		if err != nil {
			return err
		}
		switch s.Status {
		case tiering.StepDone:
			j.replied[name] = string(s.Output)
			continue
		case tiering.StepUnknown:
			j.unknown = append(j.unknown, name)
			continue
		}
		j.ran[s.Key]++
		if j.die(n, "behind the work") {
			return errDied
		}
		over = j.dying(n, "over a completion")
		s, err = all.Step(ctx, j.session, name, &tiering.StepRequest{Output: json.RawMessage(strconv.Itoa(n))}, nil)
		over()
		if j.step == n && j.death == "over a completion" || j.die(n, "behind a completion") {
			return errDied
		}
		if err != nil {
			return err
		}
		j.replied[name] = string(s.Output)
	}
	return nil
}

// stepsRunOnce: a job dies at every place of its second step, with its daemon, and
// is resumed through the other one. No step runs twice; what was finished answers
// its output; what may have run answers unknown.
func (f *fleet) stepsRunOnce(ctx context.Context, t *testing.T) {
	for i, death := range deaths {
		at := i % 2
		j := &job{f: f, session: fmt.Sprintf("job-%d", i), daemon: at, step: 1, death: death, ran: map[string]int{}, replied: map[string]string{}}
		if _, err := f.clients[1-at].Sessions().Create(ctx, &tiering.NewSession{ID: j.session}); err != nil {
			t.Fatal(err)
		}
		if err := j.run(ctx); !errors.Is(err, errDied) {
			t.Fatalf("%s: the first run ends with %v", death, err)
		}
		again := *j
		again.daemon, again.step, again.replied = 1-at, -1, map[string]string{}
		if err := again.run(ctx); err != nil {
			t.Fatalf("%s: the second run ends with %v", death, err)
		}
		f.startOne(at)
		steps, err := f.clients[at].Sessions().Steps(ctx, j.session)
		if err != nil || len(steps) != 3 {
			t.Fatalf("%s: the steps are %+v, %v", death, steps, err)
		}
		for _, s := range steps {
			finished := s.Status == tiering.StepDone
			unknown := len(again.unknown) == 1 && again.unknown[0] == s.Name
			switch {
			case j.ran[s.Key] > 1:
				t.Errorf("%s: %s ran %d times", death, s.Name, j.ran[s.Key])
			case finished && (j.ran[s.Key] != 1 || again.replied[s.Name] != string(s.Output) || unknown):
				t.Errorf("%s: %s is done, ran %d times and was answered as %q", death, s.Name, j.ran[s.Key], again.replied[s.Name])
			case !finished && !unknown:
				t.Errorf("%s: %s is neither done nor unknown: %+v", death, s.Name, s)
			}
		}
		want := map[string]int{"behind a claim": 1, "behind the work": 1, "before a claim": 0, "behind a completion": 0}
		if n, sure := want[death]; sure && len(again.unknown) != n {
			t.Errorf("%s: unknown are %v", death, again.unknown)
		}
	}
}

// holderEnv is the URL at which this test's binary, run again, holds a lease.
const holderEnv = "REPLAY_HOLDER"

// TestHolder is the process of a lease's holder: it writes under the lease until a
// write is refused, and says what it hears.
func TestHolder(t *testing.T) {
	url := os.Getenv(holderEnv)
	if url == "" {
		t.Skip("it runs as a process of TestReplaySessions alone")
	}
	c, err := client.New(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := c.Sessions()
	l, err := all.AcquireLease(t.Context(), "held", &tiering.LeaseRequest{Holder: "first", TTL: "3s"})
	if err != nil {
		t.Fatal(err)
	}
	fence := l.Fence()
	for n := 0; ; n++ {
		if _, err := all.AcquireLease(t.Context(), "held", &tiering.LeaseRequest{Holder: "first", TTL: "3s"}); err != nil {
			fmt.Println("renewal", tiering.CodeOf(err))
		}
		_, err := all.Append(t.Context(), "held", []json.RawMessage{json.RawMessage(`{"by":"first"}`)}, nil, &tiering.SessionWrite{Fence: &fence})
		if err != nil {
			fmt.Println("refused", tiering.CodeOf(err))
			return
		}
		fmt.Println("wrote", n)
		time.Sleep(20 * time.Millisecond)
	}
}

// stoppedHolder: the process that holds a lease is stopped beyond the lease's end,
// another one takes over, and nothing that the first one writes afterwards counts.
func (f *fleet) stoppedHolder(ctx context.Context, t *testing.T) {
	all := f.clients[1].Sessions()
	if _, err := all.Create(ctx, &tiering.NewSession{ID: "held"}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHolder$", "-test.v")
	cmd.Env = append(os.Environ(), holderEnv+"="+f.daemons[0].URL())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	until := func(word string) string {
		for lines.Scan() {
			if strings.Contains(lines.Text(), word) {
				return lines.Text()
			}
		}
		t.Fatalf("the holder ended and never said %q", word)
		return ""
	}
	until("wrote 3")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	second := f.takeOver(ctx, t, all)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := until("refused"); !strings.HasSuffix(got, string(tiering.CodeFenced)) {
		t.Errorf("the late write of the first holder: %s", got)
	}
	_ = cmd.Wait()
	f.onlySecond(ctx, t, all, second)
}

// takeOver takes the lease as soon as it can be had, and writes under it.
func (f *fleet) takeOver(ctx context.Context, t *testing.T, all tiering.Sessions) (seq int64) {
	t.Helper()
	for {
		l, err := all.AcquireLease(ctx, "held", &tiering.LeaseRequest{Holder: "second", TTL: "60s"})
		if tiering.CodeOf(err) == tiering.CodeLeaseHeld {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		fence := l.Fence()
		a, err := all.Append(ctx, "held", []json.RawMessage{json.RawMessage(`{"by":"second"}`)}, nil, &tiering.SessionWrite{Fence: &fence})
		if err != nil {
			t.Fatal(err)
		}
		return a.FirstSeq
	}
}

// onlySecond: behind the second holder's entry nothing stands.
func (f *fleet) onlySecond(ctx context.Context, t *testing.T, all tiering.Sessions, seq int64) {
	t.Helper()
	page, err := all.Events(ctx, "held", &tiering.EntriesOptions{After: seq - 1})
	if err != nil || len(page.Entries) != 1 || string(page.Entries[0].Data) != `{"by":"second"}` {
		t.Errorf("behind the second holder's lease stands %+v, %v", page, err)
	}
}

// stoppedDaemon: the daemon through which a holder writes is stopped with the write
// in it. When it goes on, the lease has passed on.
func (f *fleet) stoppedDaemon(ctx context.Context, t *testing.T) {
	first, second := f.clients[0].Sessions(), f.clients[1].Sessions()
	if err := second.Delete(ctx, "held", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Create(ctx, &tiering.NewSession{ID: "held"}); err != nil {
		t.Fatal(err)
	}
	l, err := first.AcquireLease(ctx, "held", &tiering.LeaseRequest{Holder: "first", TTL: "1s"})
	if err != nil {
		t.Fatal(err)
	}
	f.daemons[0].Pause()
	late := make(chan error, 1)
	go func() {
		fence := l.Fence()
		_, err := first.Append(ctx, "held", []json.RawMessage{json.RawMessage(`{"by":"first"}`)}, nil, &tiering.SessionWrite{Fence: &fence, IdempotencyKey: "late"})
		late <- err
	}()
	seq := f.takeOver(ctx, t, second)
	f.daemons[0].Resume()
	if err := <-late; tiering.CodeOf(err) != tiering.CodeFenced {
		t.Errorf("the late write: %v", err)
	}
	f.onlySecond(ctx, t, second, seq)
}
