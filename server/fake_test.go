package server

import (
	"context"
	"encoding/json"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/tierd/tierd/tiering"
)

// fake is a Service in memory, just true enough to test HTTP in front of it.
// Its clock stands still, so that answers can be compared as a whole.
type fake struct {
	tiering.Service // nil: a method that is not faked panics
	mu              sync.Mutex
	docs            map[string]*tiering.Document // by namespace/id
	versions        map[string][]*tiering.Document
	policies        map[string]*tiering.NamespaceInfo
	keys            []tiering.APIKey
	events          []tiering.Event
	changed         chan struct{} // closed and replaced at each event
	fail            error         // answered by every method, when set
	put             *tiering.PutOptions
	write           *tiering.WriteOptions
	get             *tiering.GetOptions
	list            *tiering.ListOptions
	query           *tiering.Query
	touch           *tiering.TouchOptions
	batch           *tiering.Batch
	watch           *tiering.WatchOptions
	created         tiering.APIKey
}

var fakeNow = time.Date(2026, 1, 31, 12, 0, 0, 500, time.UTC)

func newFake() *fake {
	return &fake{docs: map[string]*tiering.Document{}, versions: map[string][]*tiering.Document{},
		policies: map[string]*tiering.NamespaceInfo{}, changed: make(chan struct{})}
}

func (f *fake) stored(ns, id string) *tiering.Document { return f.docs[ns+"/"+id] }

func (f *fake) check(ns, id string, o *tiering.WriteOptions) (int64, error) {
	if f.fail != nil {
		return 0, f.fail
	}
	f.write = o
	var v int64
	if d := f.stored(ns, id); d != nil {
		v = d.Version
	}
	if o != nil && !o.If.Holds(v) {
		return v, &tiering.Error{Code: tiering.CodeVersionConflict, CurrentVersion: v, Detail: "another version stands"}
	}
	return v, nil
}

func (f *fake) commit(ns, id string, body []byte, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	v, err := f.check(ns, id, o)
	if err != nil {
		return nil, err
	}
	k := ns + "/" + id
	d := &tiering.Document{Meta: tiering.Meta{Namespace: ns, ID: id, Version: int64(len(f.versions[k])) + 1, Digest: tiering.DigestOf(body),
		Size: int64(len(body)), CreatedAt: fakeNow, UpdatedAt: fakeNow}, Body: append([]byte(nil), body...), Tier: tiering.Hot}
	if o != nil && o.TTL != nil && !o.TTL.None {
		d.ExpiresAt = fakeNow.Add(o.TTL.Life)
	}
	f.docs[k] = d
	f.versions[k] = append(f.versions[k], d)
	f.events = append(f.events, tiering.Event{ID: "e." + string(rune('0'+len(f.events))) + ".0", Type: "state.put", Namespace: ns, Key: id,
		Version: d.Version, PrevVersion: v, Time: fakeNow, Data: d.Body})
	close(f.changed)
	f.changed = make(chan struct{})
	r := &tiering.Receipt{Meta: d.Meta, Hot: true, Created: v == 0}
	if o != nil && o.IdempotencyKey == "again" {
		r.Replayed = true
	}
	if len(body) > 1000 {
		r.Warnings = []string{"size"}
	}
	return r, nil
}

func (f *fake) Put(_ context.Context, ns, id string, body []byte, o *tiering.PutOptions) (*tiering.Receipt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put = o
	if !json.Valid(body) {
		return nil, tiering.Invalidf("the body is not valid JSON")
	}
	r, err := f.commit(ns, id, body, &o.WriteOptions)
	if r != nil {
		r.User = o.User
	}
	return r, err
}

func (f *fake) Patch(_ context.Context, ns, id string, kind tiering.PatchKind, patch []byte, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commit(ns, id, []byte(`{"patched":"`+string(kind)+`"}`), o)
}

func (f *fake) Apply(_ context.Context, ns, id string, ops []tiering.EditOp, o *tiering.WriteOptions) (*tiering.Edited, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.commit(ns, id, []byte(`{}`), o)
	if err != nil {
		return nil, err
	}
	e := &tiering.Edited{Receipt: *r}
	for _, op := range ops {
		e.Values = append(e.Values, op.Value)
	}
	return e, nil
}

func (f *fake) Get(_ context.Context, ns, id string, o *tiering.GetOptions) (*tiering.Document, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.get = o
	if f.fail != nil {
		return nil, f.fail
	}
	d := f.stored(ns, id)
	switch {
	case d == nil && o != nil && o.Default != nil:
		return &tiering.Document{Body: o.Default, Default: "absent"}, nil
	case d == nil:
		return nil, tiering.Errorf(tiering.CodeNotFound, "nothing is stored under %s/%s", ns, id)
	case o != nil && o.Pointer == "/nope":
		return nil, &tiering.Error{Code: tiering.CodeNotFound, Detail: "no such part", Siblings: []string{"a", "b"}}
	}
	return d, nil
}

func (f *fake) Head(ctx context.Context, ns, id string, o *tiering.GetOptions) (*tiering.Meta, error) {
	d, err := f.Get(ctx, ns, id, o)
	if err != nil {
		return nil, err
	}
	return &d.Meta, nil
}

func (f *fake) Delete(_ context.Context, ns, id string, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, err := f.check(ns, id, o)
	if err != nil || v == 0 {
		return &tiering.Receipt{}, err
	}
	k := ns + "/" + id
	tomb := tiering.Meta{Namespace: ns, ID: id, Version: v + 1}
	f.versions[k] = append(f.versions[k], &tiering.Document{Meta: tomb})
	delete(f.docs, k)
	return &tiering.Receipt{Meta: tomb}, nil
}

func (f *fake) existing(ns, id string, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	v, err := f.check(ns, id, o)
	if err != nil {
		return nil, err
	}
	if v == 0 {
		return nil, tiering.Errorf(tiering.CodeNotFound, "nothing is stored")
	}
	return &tiering.Receipt{Meta: f.stored(ns, id).Meta}, nil
}

func (f *fake) Touch(_ context.Context, ns, id string, o *tiering.TouchOptions) (*tiering.Receipt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.touch = o
	return f.existing(ns, id, &o.WriteOptions)
}

func (f *fake) Pin(_ context.Context, ns, id string, pinned bool, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.existing(ns, id, o)
	if err == nil {
		r.Pinned = pinned
	}
	return r, err
}

func (f *fake) Rollback(_ context.Context, ns, id string, version int64, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.versions[ns+"/"+id]; version > int64(len(old)) {
		return nil, tiering.Errorf(tiering.CodeGone, "version %d is gone", version)
	}
	return f.commit(ns, id, []byte(`{}`), o)
}

func (f *fake) List(_ context.Context, ns string, o *tiering.ListOptions) (*tiering.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = o
	p := &tiering.Page{}
	for k, d := range f.docs {
		if strings.HasPrefix(k, ns+"/"+o.Prefix) {
			it := tiering.Item{Meta: d.Meta}
			if o.Data {
				it.Body = d.Body
			}
			p.Items = append(p.Items, it)
		}
	}
	sort.Slice(p.Items, func(i, j int) bool { return p.Items[i].ID < p.Items[j].ID })
	return p, f.fail
}

func (f *fake) Query(ctx context.Context, ns string, q *tiering.Query) (*tiering.Page, error) {
	f.mu.Lock()
	f.query = q
	f.mu.Unlock()
	return f.List(ctx, ns, &tiering.ListOptions{Prefix: q.Prefix, Data: true})
}

func (f *fake) History(_ context.Context, ns, id string, _ *tiering.HistoryOptions) (*tiering.History, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := &tiering.History{}
	for _, d := range f.versions[ns+"/"+id] {
		h.Versions = append([]tiering.VersionInfo{{Version: d.Version, Op: tiering.OpPut, Size: d.Size, Digest: d.Digest, CreatedAt: d.UpdatedAt, Tier: tiering.Warm}}, h.Versions...)
	}
	return h, nil
}

func (f *fake) Diff(context.Context, string, string, int64, int64) (json.RawMessage, error) {
	return json.RawMessage(`[{"op":"replace","path":"/a","value":2}]`), f.fail
}

func (f *fake) Explain(_ context.Context, ns, id string) (*tiering.Explanation, error) {
	return &tiering.Explanation{Meta: tiering.Meta{Namespace: ns, ID: id}, State: "absent", Next: tiering.Action{Move: tiering.MoveStay}}, nil
}

func (f *fake) Batch(_ context.Context, b *tiering.Batch) (*tiering.BatchResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batch = b
	res := &tiering.BatchResult{Replayed: b.IdempotencyKey == "again"}
	for i, op := range b.Ops {
		if b.Atomic && op.Op == "check" {
			return nil, &tiering.Error{Code: tiering.CodeVersionConflict, Batch: true, FailedOp: i, Detail: "the check failed"}
		}
		res.Results = append(res.Results, tiering.OpResult{Status: 200, Values: []json.RawMessage{op.Data}})
	}
	return res, nil
}

func (f *fake) Namespaces(context.Context) ([]tiering.NamespaceInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []tiering.NamespaceInfo
	for _, p := range f.policies {
		out = append(out, *p)
	}
	return out, nil
}

func (f *fake) Namespace(_ context.Context, ns string) (*tiering.NamespaceInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.policies[ns]; p != nil {
		return p, nil
	}
	return nil, tiering.Errorf(tiering.CodeNotFound, "no namespace %s", ns)
}

func (f *fake) SetNamespace(_ context.Context, ns string, p tiering.Policy, o *tiering.WriteOptions) (*tiering.NamespaceInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.write = o
	if err := p.Validate(); err != nil {
		return nil, err
	}
	f.policies[ns] = &tiering.NamespaceInfo{Name: ns, Version: 1, Policy: p}
	return f.policies[ns], nil
}

func (f *fake) PatchNamespace(ctx context.Context, ns string, patch []byte, o *tiering.WriteOptions) (*tiering.NamespaceInfo, error) {
	return f.SetNamespace(ctx, ns, tiering.Policy{Kind: tiering.KindState}, o)
}

func (f *fake) DeleteNamespace(_ context.Context, ns string, _ *tiering.WriteOptions) error {
	return f.fail
}

func (f *fake) CreateKey(_ context.Context, k tiering.APIKey) (*tiering.APIKey, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.created = k
	k.ID, k.Secret = "k1", "s3cret"
	f.keys = append(f.keys, k)
	return &k, nil
}

func (f *fake) APIKeys(context.Context) ([]tiering.APIKey, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]tiering.APIKey(nil), f.keys...), nil
}

func (f *fake) RevokeKey(_ context.Context, id string) error {
	if id != "k1" {
		return tiering.Errorf(tiering.CodeNotFound, "no key %s", id)
	}
	return nil
}

func (f *fake) Status(context.Context) (*tiering.NodeStatus, error) {
	return &tiering.NodeStatus{Version: "t", Epoch: "e", Started: fakeNow, Ready: true, Tiers: []tiering.TierStatus{}, Counts: map[string]int64{}}, f.fail
}

func (f *fake) Watch(_ context.Context, o *tiering.WatchOptions) (tiering.Watcher, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = o
	w := &fakeWatcher{f: f, data: o.Data, closed: make(chan struct{})}
	switch {
	case o.After == "old":
		return nil, tiering.Errorf(tiering.CodeGone, "the feed no longer keeps %s", o.After)
	case o.After != "":
		for i, e := range f.events {
			if e.ID == o.After {
				w.next = i + 1
			}
		}
	case o.From != "start":
		w.next = len(f.events)
	}
	return w, nil
}

type fakeWatcher struct {
	f      *fake
	next   int
	data   bool
	once   sync.Once
	closed chan struct{}
}

func (w *fakeWatcher) Next(ctx context.Context) (tiering.Event, error) {
	for {
		w.f.mu.Lock()
		changed, fail := w.f.changed, w.f.fail
		if w.next < len(w.f.events) {
			e := w.f.events[w.next]
			w.next++
			w.f.mu.Unlock()
			if !w.data {
				e.Data = nil
			}
			return e, nil
		}
		w.f.mu.Unlock()
		if fail != nil {
			return tiering.Event{}, fail
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return tiering.Event{}, ctx.Err()
		case <-w.closed:
			return tiering.Event{}, tiering.Errorf(tiering.CodeGone, "closed")
		}
	}
}

func (w *fakeWatcher) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}
