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

// says is told of a difference.
type says func(format string, args ...any)

// check compares what s holds with what was acknowledged until at. wrong is told of
// each answer that is not so, "not found" among them, and unread of each refusal to
// answer. It returns how many acknowledged writes it looked for.
func (l *ledger) check(ctx context.Context, s tiering.Service, at int, wrong, unread says) (looked int) {
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
			checkLog(ctx, s, id, acked, maybe, wrong, unread)
		} else {
			checkDocument(ctx, s, id, acked, maybe, wrong, unread)
		}
	}
	return looked
}

func checkDocument(ctx context.Context, s tiering.Service, id string, acked, maybe []*change, wrong, unread says) {
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
			wrong("%s: not found, and version %d was acknowledged", id, last)
		}
	case err != nil:
		unread("%s: %v", id, err)
	case !may[string(d.Body)]:
		wrong("%s: version %d is %.60s, and version %d was acknowledged", id, d.Version, d.Body, last)
	case d.Version < last:
		wrong("%s: version %d, and version %d was acknowledged", id, d.Version, last)
	}
	for i := len(acked) - 1; i >= 0 && i > len(acked)-8; i-- {
		c := acked[i]
		if c.body == "" {
			continue
		}
		d, err := s.Get(ctx, documents, id, &tiering.GetOptions{Version: c.version})
		switch {
		case errors.Is(err, tiering.ErrNotFound):
			wrong("%s: version %d was acknowledged: %v", id, c.version, err)
		case err != nil:
			unread("%s: version %d was acknowledged: %v", id, c.version, err)
		case string(d.Body) != c.body:
			wrong("%s: version %d, which was acknowledged, is %.60s", id, c.version, d.Body)
		}
	}
	rc, err := s.Put(ctx, documents, id, []byte(`{"after":"the crash"}`), nil)
	if err != nil || rc.Version <= last {
		wrong("%s: a new write: %+v, %v, and version %d was acknowledged", id, rc, err, last)
	}
}

func checkLog(ctx context.Context, s tiering.Service, id string, acked, maybe []*change, wrong, unread says) {
	page, err := s.Entries(ctx, lines, id, &tiering.EntriesOptions{Limit: 1000})
	switch {
	case errors.Is(err, tiering.ErrNotFound):
		if len(acked) > 0 {
			wrong("log %s: not found, and %d entries were acknowledged", id, len(acked))
		}
		return
	case err != nil:
		unread("log %s: %v", id, err)
		return
	}
	if n := len(page.Entries); n < len(acked) || n > len(acked)+len(maybe) {
		wrong("log %s: %d entries, %d were acknowledged, %d more may be", id, n, len(acked), len(maybe))
		return
	}
	for i, e := range page.Entries {
		want := append(append([]*change{}, acked...), maybe...)[i]
		if string(e.Data) != want.body || e.Seq != int64(i+1) {
			wrong("log %s: entry %d is %.60s", id, e.Seq, e.Data)
		}
	}
}
