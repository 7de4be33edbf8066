package router

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// One key is a register with versions. Each operation of a history has an
// outcome, or none: then it may have happened, at any time after its call.

type registerOp struct {
	verb  string // put, delete or get
	cond  tiering.Condition
	value string // put
}

type registerOut struct {
	unknown  bool
	conflict bool
	version  int64
	value    string // get; "" where nothing stands
}

type register struct {
	version int64
	value   string // "" when deleted or never made
}

func (r register) standing() int64 {
	if r.value == "" {
		return 0
	}
	return r.version
}

// after returns the states that op may leave, given what it answered.
func (r register) after(op registerOp, out registerOut) []register {
	if op.verb == "get" {
		if out.unknown || out.value == r.value && (r.value == "" || out.version == r.version) {
			return []register{r}
		}
		return nil
	}
	holds := op.cond.Holds(r.standing())
	next := register{version: r.version + 1, value: op.value}
	if op.verb == "delete" && r.value == "" {
		next = r // nothing to delete: no version is made
	}
	switch {
	case out.unknown && holds:
		return []register{r, next}
	case out.unknown, out.conflict && !holds:
		return []register{r}
	case !out.conflict && holds && out.version == next.version:
		return []register{next}
	}
	return nil
}

func registerModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{register{}} },
		Step: func(state, input, output any) []any {
			var out []any
			for _, s := range state.(register).after(input.(registerOp), output.(registerOut)) {
				out = append(out, s)
			}
			return out
		},
	}
	return m.ToModel()
}

// history plays clients against one key and records what each was told.
type history struct {
	w     *world
	id    string
	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
	known atomic.Int64 // some version that was acknowledged, for conditions
}

func (h *history) client(n int, rng *rand.Rand, ops int) {
	for i := range ops {
		op := registerOp{value: strconv.Itoa(n*100 + i + 1)}
		switch rng.IntN(10) {
		case 0, 1:
			op.verb = "put"
		case 2, 3, 4:
			op.verb, op.cond = "put", tiering.IfVersion(h.known.Load())
		case 5:
			op.verb, op.cond = "put", tiering.IfAbsent()
		case 6:
			op.verb, op.value = "delete", ""
		default:
			op.verb = "get"
		}
		ctx, cancel := context.WithCancel(h.w.ctx)
		if rng.IntN(6) == 0 { // a caller that times out
			ctx, cancel = context.WithTimeout(h.w.ctx, time.Duration(rng.IntN(2000))*time.Microsecond)
		}
		call := time.Since(h.began).Nanoseconds()
		out := h.run(ctx, h.daemon(n), op)
		ret := time.Since(h.began).Nanoseconds()
		cancel()
		if out.unknown {
			ret = 1 << 60
		}
		h.mu.Lock()
		h.ops = append(h.ops, porcupine.Operation{ClientId: n, Input: op, Call: call, Output: out, Return: ret})
		h.mu.Unlock()
	}
}

// daemon is whom a client talks to: the two there are on servers, in turn.
func (h *history) daemon(client int) *Router {
	if client%2 == 1 {
		return h.w.writer
	}
	return h.w.r
}

func (h *history) run(ctx context.Context, r *Router, op registerOp) (out registerOut) {
	var rc *tiering.Receipt
	var err error
	switch op.verb {
	case "get":
		d, err := r.Get(ctx, space, h.id, &tiering.GetOptions{Strong: true})
		switch {
		case tiering.CodeOf(err) == tiering.CodeNotFound:
			return registerOut{}
		case err != nil:
			return registerOut{unknown: true}
		}
		return registerOut{version: d.Version, value: string(d.Body)}
	case "put":
		rc, err = r.Put(ctx, space, h.id, []byte(op.value), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: op.cond}})
	default:
		rc, err = r.Delete(ctx, space, h.id, &tiering.WriteOptions{If: op.cond})
	}
	switch {
	case tiering.CodeOf(err) == tiering.CodeVersionConflict:
		return registerOut{conflict: true}
	case err != nil:
		return registerOut{unknown: true}
	}
	h.known.Store(rc.Version)
	return registerOut{version: rc.Version}
}

// play runs the clients and returns the history.
func (h *history) play(seed uint64, clients, ops int) []porcupine.Operation {
	h.began = time.Now()
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() { h.client(n, rand.New(rand.NewPCG(seed, uint64(n))), ops) })
	}
	wg.Wait()
	return h.ops
}

// histories plays n of them, a few at a time, and returns those that are not
// linearizable, how many could not be decided in time, and how many operations were
// left without an outcome.
func histories(w *world, n int) (illegal []string, undecided int, unknown int64) {
	model := registerModel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			h := &history{w: w, id: fmt.Sprint("register-", i)}
			ops := h.play(uint64(i), 4, 6)
			res := porcupine.CheckOperationsTimeout(model, ops, patience)
			mu.Lock()
			defer mu.Unlock()
			for _, op := range ops {
				if op.Output.(registerOut).unknown {
					unknown++
				}
			}
			switch res {
			case porcupine.Illegal:
				illegal = append(illegal, fmt.Sprintf("history %d: %+v", i, ops))
			case porcupine.Unknown:
				undecided++
			}
		})
	}
	wg.Wait()
	return illegal, undecided, unknown
}

var (
	errHotLost   = errors.New("hot does not answer")
	errReplyLost = errors.New("the reply was lost")
)

// flaky is a setup in which a share of the commits succeed and answer an error.
func flaky(s setup) setup {
	s.afterCommit = func() error {
		if rand.IntN(6) == 0 {
			return errReplyLost
		}
		return nil
	}
	return s
}

// unsteady makes hot fail at random: before a call, or when it is done.
func (w *world) unsteady() {
	w.failAll(func(call string) error {
		if len(call) > 4 && call[:4] == "hot." && rand.IntN(5) == 0 {
			return errHotLost
		}
		return nil
	})
}

// Put, compare-and-set, delete and strong get of one key are linearizable while
// hot fails at random, replies of warm are lost and callers leave. HISTORIES asks for
// another number of histories, and for as many of two daemons on servers.
func TestOneKeyIsLinearizable(t *testing.T) {
	n, places := 200, []place{embedded}
	if text := os.Getenv("HISTORIES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("HISTORIES: %v", err)
		}
		places = append(places, servers)
	}
	for _, where := range places {
		t.Run(where.String(), func(t *testing.T) {
			w := open(t, flaky(setup{place: where}))
			w.put("first", `0`) // the namespace
			w.unsteady()
			began := time.Now()
			illegal, undecided, unknown := histories(w, n)
			for _, h := range illegal {
				t.Errorf("not linearizable: %s", h)
			}
			if undecided*100 >= n {
				t.Errorf("%d of %d histories could not be decided", undecided, n)
			}
			if unknown == 0 {
				t.Error("every operation had an outcome: nothing went wrong")
			}
			t.Logf("%d histories in %v: %d illegal, %d undecided, %d operations without an outcome", n,
				time.Since(began).Round(100*time.Millisecond), len(illegal), undecided, unknown)
		})
	}
}

// The checker sees what it is there for: stores that write whatever stands, and
// strong gets that join a load under way.
func TestLinearizabilityCheckSeesNaiveStores(t *testing.T) {
	for name, naive := range map[string]setup{
		"conditions ignored": {warm: blind},
		"stale strong gets":  {warm: func(s warm.Store) warm.Store { return &late{Store: s} }},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, naive)
			w.put("first", `0`)
			if illegal, _, _ := histories(w, 60); len(illegal) == 0 {
				t.Error("60 histories of a naive store pass the check")
			}
		})
	}
}

// late reads what stood before the read was asked for, now and then.
type late struct {
	warm.Store
	mu   sync.Mutex
	last map[tiering.Key]warm.Current
}

func (l *late) Load(ctx context.Context, key tiering.Key) (warm.Current, error) {
	cur, err := l.Store.Load(ctx, key)
	if err != nil || key.Reserved() {
		return cur, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old, ok := l.last[key]
	if l.last == nil {
		l.last = map[tiering.Key]warm.Current{}
	}
	l.last[key] = cur
	if ok {
		return old, nil
	}
	return cur, nil
}

// A cached get answers no version below min_version, whatever hot and the
// replies of warm do.
func TestCachedGetsHonourMinVersion(t *testing.T) {
	w := open(t, flaky(setup{}))
	w.put("k", `0`)
	w.unsteady()
	var known atomic.Int64
	var served atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				rc, err := w.r.Put(w.ctx, space, "k", []byte(`1`), nil)
				if err != nil {
					t.Error(err)
					return
				}
				raise(&known, rc.Version)
			}
		})
		wg.Go(func() {
			for range 300 {
				lowest := known.Load()
				d, err := w.r.Get(w.ctx, space, "k", &tiering.GetOptions{MinVersion: lowest})
				if err != nil {
					t.Errorf("min_version %d: %v", lowest, err)
					return
				}
				if d.Version < lowest {
					t.Errorf("min_version %d is answered with version %d", lowest, d.Version)
				}
				served.Add(1)
			}
		})
	}
	wg.Wait()
	if served.Load() != 1200 {
		t.Errorf("%d reads were served", served.Load())
	}
	_, err := w.r.Get(w.ctx, space, "k", &tiering.GetOptions{MinVersion: known.Load() + 1})
	if tiering.CodeOf(err) != tiering.CodeVersionConflict {
		t.Errorf("a min_version above the head answers %v", err)
	}
}

// raise lifts v to n.
func raise(v *atomic.Int64, n int64) {
	for old := v.Load(); old < n && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}

// On one node a cached get that begins after a write was acknowledged answers
// that write or a later one, also when hot evicts the key at any time.
func TestReadYourWrites(t *testing.T) {
	for _, evicting := range []bool{false, true} {
		t.Run(fmt.Sprintf("evicting %t", evicting), func(t *testing.T) {
			w := open(t, setup{})
			w.put("k", `{"n":0}`)
			var known atomic.Int64
			var wg sync.WaitGroup
			stop := make(chan struct{})
			if evicting {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(50 * time.Microsecond):
							if err := w.hot.Drop(w.ctx, key("k"), 0, 0); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			var workers sync.WaitGroup
			for n := range 4 {
				workers.Go(func() {
					for i := range 80 {
						before := known.Load()
						d, err := w.r.Get(w.ctx, space, "k", nil)
						if err != nil {
							t.Error(err)
							return
						}
						if d.Version < before {
							t.Errorf("version %d was acknowledged before a get that answers version %d", before, d.Version)
						}
						if i%3 == n%3 {
							rc, err := w.r.Put(w.ctx, space, "k", []byte(`{"n":1}`), nil)
							if err != nil {
								t.Error(err)
								return
							}
							raise(&known, rc.Version)
						} else if n == 0 {
							e, err := w.r.Apply(w.ctx, space, "k", []tiering.EditOp{{Op: "increment", Pointer: "/n"}}, nil)
							if err != nil {
								t.Error(err)
								return
							}
							raise(&known, e.Version)
						}
					}
				})
			}
			workers.Wait()
			close(stop)
			wg.Wait()
		})
	}
}
