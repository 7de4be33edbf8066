package hottest

import (
	"bytes"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// testSwap proves the writes of documents that live in hot alone.
func testSwap(t *testing.T, h Harness) {
	tests := map[string]func(t *testing.T, d *ephemeral){
		"a fresh document": func(t *testing.T, d *ephemeral) {
			e := d.put(tiering.Condition{}, `{"a":1}`, 0)
			m := e.Meta
			if m.Namespace != d.key.Namespace || m.ID != d.key.ID || m.Size != 7 || m.Digest != tiering.DigestOf([]byte(`{"a":1}`)) {
				t.Errorf("meta is %+v", m)
			}
			if !m.ExpiresAt.IsZero() || m.TTL != 0 || m.Revision != 0 {
				t.Errorf("a life without end has expiry %v, ttl %v", m.ExpiresAt, m.TTL)
			}
			if m.Version != m.UpdatedAt.UnixMicro() || !m.CreatedAt.Equal(m.UpdatedAt) {
				t.Errorf("version %d, created %v, updated %v: want the store's clock in microseconds", m.Version, m.CreatedAt, m.UpdatedAt)
			}
			d.stands(e)
		},
		"a replaced document keeps when it was created": func(t *testing.T, d *ephemeral) {
			first := d.put(tiering.Condition{}, `1`, 0)
			d.Advance(d.Timing.Lease / 10)
			second := d.put(tiering.Condition{}, `2`, 0)
			if second.Meta.Version <= first.Meta.Version {
				t.Errorf("version went from %d to %d", first.Meta.Version, second.Meta.Version)
			}
			if !second.Meta.CreatedAt.Equal(first.Meta.CreatedAt) || !second.Meta.UpdatedAt.After(first.Meta.UpdatedAt) {
				t.Errorf("created %v, updated %v after %v", second.Meta.CreatedAt, second.Meta.UpdatedAt, first.Meta.UpdatedAt)
			}
			d.stands(second)
		},
		"a version above the clock is stepped over": func(t *testing.T, d *ephemeral) {
			ahead := time.Now().Add(50 * 365 * 24 * time.Hour).UnixMicro()
			if stored, err := d.Store.Set(t.Context(), hot.Set{Key: d.key, Entry: entry(d.key, ahead, 0), TTL: long}); err != nil || !stored {
				t.Fatalf("stored %v, %v", stored, err)
			}
			if e := d.put(tiering.IfVersion(ahead), `1`, 0); e.Meta.Version != ahead+1 {
				t.Errorf("version %d, want %d", e.Meta.Version, ahead+1)
			}
			if e := d.put(tiering.Condition{}, ``, 0); e.Meta.Version != ahead+2 {
				t.Errorf("version %d of the delete, want %d", e.Meta.Version, ahead+2)
			}
			if e := d.put(tiering.IfAbsent(), `1`, 0); e.Meta.Version != ahead+3 {
				t.Errorf("version %d after the delete, want %d", e.Meta.Version, ahead+3)
			}
		},
		"conditions where nothing stands": func(t *testing.T, d *ephemeral) {
			d.refused(tiering.IfExists(), hot.Entry{})
			d.refused(tiering.IfVersion(1), hot.Entry{})
			d.put(tiering.IfAbsent(), `1`, 0)
		},
		"conditions where a version stands": func(t *testing.T, d *ephemeral) {
			e := d.put(tiering.IfVersion(0), `1`, 0)
			d.refused(tiering.IfAbsent(), e)
			d.refused(tiering.IfVersion(e.Meta.Version-1), e)
			d.refused(tiering.IfVersion(e.Meta.Version+1), e)
			d.stands(e)
			e = d.put(tiering.IfVersion(e.Meta.Version), `2`, 0)
			e = d.put(tiering.IfExists(), `3`, 0)
			d.stands(e)
		},
		"a delete": func(t *testing.T, d *ephemeral) {
			e := d.put(tiering.Condition{}, `1`, 0)
			d.refused(tiering.IfVersion(e.Meta.Version+1), e)
			gone := d.put(tiering.IfVersion(e.Meta.Version), ``, 0)
			if gone.Meta.Version <= e.Meta.Version || gone.Body != nil || gone.Meta.Digest != (tiering.Digest{}) {
				t.Errorf("the delete of v%d is %+v", e.Meta.Version, gone)
			}
			l := d.get()
			if l.State != hot.Deleted || l.Entry.Meta.Version != gone.Meta.Version {
				t.Errorf("a reader got %s", describe(l))
			}
			d.refused(tiering.IfExists(), hot.Entry{})
			d.refused(tiering.IfVersion(gone.Meta.Version), hot.Entry{})
			again := d.put(tiering.IfAbsent(), `2`, 0)
			if again.Meta.Version <= gone.Meta.Version || !again.Meta.CreatedAt.Equal(again.Meta.UpdatedAt) {
				t.Errorf("created again as %+v after v%d", again.Meta, gone.Meta.Version)
			}
		},
		"a delete of nothing is a version too": func(t *testing.T, d *ephemeral) {
			gone := d.put(tiering.Condition{}, ``, 0)
			if l := d.get(); gone.Meta.Version == 0 || l.State != hot.Deleted {
				t.Errorf("v%d, a reader got %s", gone.Meta.Version, describe(l))
			}
		},
		"a life": func(t *testing.T, d *ephemeral) {
			ttl := d.Timing.Lease
			e := d.put(tiering.Condition{}, `1`, ttl)
			if e.Meta.TTL != ttl || !e.Meta.ExpiresAt.Equal(e.Meta.UpdatedAt.Add(ttl)) {
				t.Errorf("ttl %v, expires %v, updated %v", e.Meta.TTL, e.Meta.ExpiresAt, e.Meta.UpdatedAt)
			}
			d.Advance(ttl * 6 / 10)
			d.stands(e)
			d.Advance(ttl * 5 / 10)
			if l := d.get(); l.State != hot.Empty {
				t.Errorf("a reader got %s", describe(l))
			}
			d.refused(tiering.IfExists(), hot.Entry{})
			if again := d.put(tiering.IfAbsent(), `2`, 0); again.Meta.Version <= e.Meta.Version {
				t.Errorf("version went from %d to %d", e.Meta.Version, again.Meta.Version)
			}
		},
		"a write without ttl ends a life with one": func(t *testing.T, d *ephemeral) {
			d.put(tiering.Condition{}, `1`, d.Timing.Lease/4)
			e := d.put(tiering.Condition{}, `2`, 0)
			d.Advance(d.Timing.Lease / 2)
			d.stands(e)
		},
		"a write kills the lease": func(t *testing.T, d *ephemeral) {
			l, err := d.Store.Get(t.Context(), d.key, true)
			if err != nil || l.Lease == 0 {
				t.Fatalf("%s, %v", describe(l), err)
			}
			e := d.put(tiering.Condition{}, `1`, 0)
			if stored, err := d.Store.Fill(t.Context(), d.key, l.Lease, entry(d.key, e.Meta.Version+1, 0), long); stored || err != nil {
				t.Errorf("stored %v, %v", stored, err)
			}
			d.stands(e)
		},
		"a thousand writes in a row have a thousand versions": func(t *testing.T, d *ephemeral) {
			last := int64(0)
			for range 1000 {
				v := d.put(tiering.Condition{}, `1`, 0).Meta.Version
				if v <= last {
					t.Fatalf("version went from %d to %d", last, v)
				}
				last = v
			}
		},
		"one of 64 creators wins": func(t *testing.T, d *ephemeral) {
			var wins, losses sync.Map
			together(64, func(i int) {
				e, ok, err := d.Store.Swap(t.Context(), d.key, tiering.IfAbsent(), []byte(strconv.Itoa(i)), 0)
				if err != nil {
					t.Error(err)
				}
				if ok {
					wins.Store(i, e.Meta.Version)
				} else {
					losses.Store(e.Meta.Version, i)
				}
			})
			if n, m := count(&wins), count(&losses); n != 1 || m != 1 {
				t.Errorf("%d won, and the others saw %d versions", n, m)
			}
		},
		"64 counters add up": func(t *testing.T, d *ephemeral) {
			d.put(tiering.Condition{}, `0`, 0)
			var versions sync.Map
			const each = 4
			together(64, func(int) {
				for n := 0; n < each; {
					l := d.get()
					at, err := strconv.Atoi(string(l.Entry.Body))
					if err != nil {
						t.Error(err)
						return
					}
					e, ok, err := d.Store.Swap(t.Context(), d.key, tiering.IfVersion(l.Entry.Meta.Version), []byte(strconv.Itoa(at+1)), 0)
					if err != nil {
						t.Error(err)
						return
					}
					if ok {
						versions.Store(e.Meta.Version, true)
						n++
					}
				}
			})
			if l := d.get(); string(l.Entry.Body) != strconv.Itoa(64*each) || count(&versions) != 64*each {
				t.Errorf("the counter is %s after %d versions, want %d", l.Entry.Body, count(&versions), 64*each)
			}
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &ephemeral{Subject: h.open(t, Options{}), t: t, key: tiering.Key{Tenant: "t", Namespace: "scratch", ID: "x"}})
		})
	}
}

// ephemeral is one document that lives in hot alone.
type ephemeral struct {
	Subject
	t   *testing.T
	key tiering.Key
}

// put swaps body in, or deletes when it is "", and must be let through.
func (d *ephemeral) put(cond tiering.Condition, body string, ttl time.Duration) hot.Entry {
	d.t.Helper()
	var b []byte
	if body != "" {
		b = []byte(body)
	}
	e, ok, err := d.Store.Swap(d.t.Context(), d.key, cond, b, ttl)
	if err != nil || !ok {
		d.t.Fatalf("swap of %q: %v, %v", body, ok, err)
	}
	return e
}

// refused must not be let through, and be told what stands.
func (d *ephemeral) refused(cond tiering.Condition, stands hot.Entry) {
	d.t.Helper()
	for _, body := range [][]byte{[]byte(`"refused"`), nil} {
		e, ok, err := d.Store.Swap(d.t.Context(), d.key, cond, body, 0)
		if err != nil || ok {
			d.t.Errorf("swap: %v, %v, want it refused", ok, err)
		}
		if e.Meta != stands.Meta || !bytes.Equal(e.Body, stands.Body) {
			d.t.Errorf("what stands is %+v, want %+v", e, stands)
		}
	}
}

func (d *ephemeral) get() hot.Lookup {
	d.t.Helper()
	l, err := d.Store.Get(d.t.Context(), d.key, false)
	if err != nil {
		d.t.Error(err)
	}
	return l
}

func (d *ephemeral) stands(e hot.Entry) {
	d.t.Helper()
	if l := d.get(); l.State != hot.Present || l.Entry.Meta != e.Meta || !bytes.Equal(l.Entry.Body, e.Body) {
		d.t.Errorf("a reader got %s, want v%d %s", describe(l), e.Meta.Version, e.Body)
	}
}

// together runs fn in n goroutines that start at once, and waits.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}

func count(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}
