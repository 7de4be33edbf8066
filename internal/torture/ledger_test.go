package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/tierd/tierd/tiering"
)

// ledger is what writers did to keys, each of which one writer alone writes, one
// change after the other: so that what has to stand after a crash is known but
// for the change that was on its way.
type ledger struct {
	now func() int // the moment of a change, for those who cut by moments

	mu   sync.Mutex
	keys map[string][]*change // by "ns/id"
}

// change is one write, and when it began and was acknowledged.
type change struct {
	body         string // "" for a deletion
	version      int64  // once acknowledged
	began, acked int    // by the ledger's clock; acked -1: never
}

func newLedger(now func() int) *ledger { return &ledger{now: now, keys: map[string][]*change{}} }

// The namespaces of documents, whose writes are puts, and of logs.
const (
	documents = "docs"
	lines     = "lines"
)

// prepare makes the namespaces. The hot life of documents is short, so that what
// lies below is read.
func prepare(ctx context.Context, s tiering.Service) error {
	_, err := s.SetNamespace(ctx, lines, tiering.Policy{Kind: tiering.KindLog}, nil)
	if err != nil {
		return err
	}
	_, err = s.SetNamespace(ctx, documents, tiering.Policy{HotTTL: tiering.Duration(1_000_000)}, nil)
	return err
}

// write makes a change of a key that the caller alone writes, and records it. An
// error leaves it on its way.
func (l *ledger) write(ctx context.Context, s tiering.Service, ns, id string, r *rand.Rand) error {
	l.mu.Lock()
	key := ns + "/" + id
	n := len(l.keys[key])
	c := &change{acked: -1, began: l.now()}
	if ns == lines || n == 0 || r.IntN(6) > 0 {
		c.body = fmt.Sprintf(`{"key":%q,"n":%d,"pad":%q}`, key, n, strings.Repeat("x", r.IntN(3000)))
	}
	l.keys[key] = append(l.keys[key], c)
	l.mu.Unlock()
	version, err := send(ctx, s, ns, id, c.body)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.version, c.acked = version, l.now()
	return nil
}

func send(ctx context.Context, s tiering.Service, ns, id, body string) (int64, error) {
	switch {
	case ns == lines:
		a, err := s.Append(ctx, ns, id, []json.RawMessage{json.RawMessage(body)}, nil)
		if err != nil {
			return 0, err
		}
		return a.LastSeq, nil
	case body == "":
		rc, err := s.Delete(ctx, ns, id, nil)
		if err != nil {
			return 0, err
		}
		return rc.Version, nil
	}
	rc, err := s.Put(ctx, ns, id, []byte(body), nil)
	if err != nil {
		return 0, err
	}
	return rc.Version, nil
}

// check compares what s holds with what was acknowledged until at, and calls
// violated for each difference. It returns how many acknowledged writes it
// looked for.
func (l *ledger) check(ctx context.Context, s tiering.Service, at int, violated func(string, ...any)) (looked int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, all := range l.keys {
		ns, id, _ := strings.Cut(key, "/")
		var acked, maybe []*change
		for _, c := range all {
			switch {
			case c.acked >= 0 && c.acked <= at:
				acked = append(acked, c)
			case c.began <= at:
				maybe = append(maybe, c)
			}
		}
		looked += len(acked)
		if ns == lines {
			checkLog(ctx, s, id, acked, maybe, violated)
		} else {
			checkDocument(ctx, s, id, acked, maybe, violated)
		}
	}
	return looked
}

func checkDocument(ctx context.Context, s tiering.Service, id string, acked, maybe []*change, violated func(string, ...any)) {
	may := map[string]bool{}
	last := int64(0)
	if len(acked) > 0 {
		may[acked[len(acked)-1].body], last = true, acked[len(acked)-1].version
	} else {
		may[""] = true
	}
	for _, c := range maybe {
		may[c.body] = true
	}
	d, err := s.Get(ctx, documents, id, &tiering.GetOptions{Strong: true})
	switch {
	case errors.Is(err, tiering.ErrNotFound):
		if !may[""] {
			violated("%s: not found, and version %d was acknowledged", id, last)
		}
	case err != nil:
		violated("%s: %v", id, err)
	case !may[string(d.Body)]:
		violated("%s: version %d is %.60s, and version %d was acknowledged", id, d.Version, d.Body, last)
	case d.Version < last:
		violated("%s: version %d, and version %d was acknowledged", id, d.Version, last)
	}
	for i := len(acked) - 1; i >= 0 && i > len(acked)-8; i-- {
		c := acked[i]
		if c.body == "" {
			continue
		}
		d, err := s.Get(ctx, documents, id, &tiering.GetOptions{Version: c.version})
		if err != nil || string(d.Body) != c.body {
			violated("%s: version %d, which was acknowledged: %v", id, c.version, err)
		}
	}
	rc, err := s.Put(ctx, documents, id, []byte(`{"after":"the crash"}`), nil)
	if err != nil || rc.Version <= last {
		violated("%s: a new write: %+v, %v, and version %d was acknowledged", id, rc, err, last)
	}
}

func checkLog(ctx context.Context, s tiering.Service, id string, acked, maybe []*change, violated func(string, ...any)) {
	page, err := s.Entries(ctx, lines, id, &tiering.EntriesOptions{Limit: 1000})
	if errors.Is(err, tiering.ErrNotFound) && len(acked) == 0 {
		return
	}
	if err != nil {
		violated("log %s: %v", id, err)
		return
	}
	if n := len(page.Entries); n < len(acked) || n > len(acked)+len(maybe) {
		violated("log %s: %d entries, %d were acknowledged, %d more may be", id, n, len(acked), len(maybe))
		return
	}
	for i, e := range page.Entries {
		want := append(append([]*change{}, acked...), maybe...)[i]
		if string(e.Data) != want.body || e.Seq != int64(i+1) {
			violated("log %s: entry %d is %.60s", id, e.Seq, e.Data)
		}
	}
}
