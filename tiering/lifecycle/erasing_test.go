package lifecycle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/cold/dir"
	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/memory"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// canary is in everything that an erase has to take, and nowhere else.
const canary = "CANARY"

// ward is a node of all tiers with a subject that is to be erased, beside
// others that must stay as they are.
type ward struct {
	testing.TB
	ctx     context.Context
	folder  string          // of warm
	dump    func() []string // of warm's rows, where warm is no file
	store   warm.Store
	hot     *memory.Store
	buckets [2]*coldtest.FaultBucket
	archive *cold.Archive
	engine  *lifecycle.Engine
	config  lifecycle.Config
}

// wardOptions is how a ward differs from tierd as it is.
type wardOptions struct {
	place   place                       // "": embedded
	folders bool                        // the buckets are folders
	store   func(warm.Store) warm.Store // between the engine and the driver
	bucket  func(cold.Bucket) cold.Bucket
	config  lifecycle.Config
}

func newWard(t testing.TB, o wardOptions) *ward {
	t.Helper()
	w := &ward{TB: t, ctx: t.Context(), folder: t.TempDir(), hot: memory.Open(nil)}
	t.Cleanup(func() { _ = w.hot.Close() })
	tiers := o.place.open(t, w.folder, nil)
	w.store, w.dump = tiers.warm, tiers.dump
	var between [2]cold.Bucket
	for i := range w.buckets {
		var b cold.Bucket = tiers.buckets[i]
		if o.folders {
			var err error
			b, err = dir.Open(filepath.Join(w.folder, tiering.Copy(i).String()), nil)
			w.no(err)
			t.Cleanup(func() { _ = b.Close() })
		}
		w.buckets[i] = coldtest.NewFaultBucket(b)
		between[i] = w.buckets[i]
		if o.bucket != nil {
			between[i] = o.bucket(between[i])
		}
	}
	w.archive = cold.NewArchive(between[0], between[1], &cold.ArchiveOptions{Cooldown: time.Nanosecond})
	w.config = o.config
	w.config.Warm, w.config.Archive, w.config.Hot = w.store, w.archive, w.hot
	if o.store != nil {
		w.config.Warm = o.store(w.store)
	}
	if w.config.HotLease == 0 {
		w.config.HotLease = time.Millisecond
	}
	w.restart()
	return w
}

// restart forgets what the engine kept in memory, as a new process does.
func (w *ward) restart() { w.engine = lifecycle.New(w.config) }

func (w *ward) no(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// owned is a put by a user.
func owned(user, body string) warm.Row {
	r := put([]byte(body))
	r.User, r.Query = user, true
	return r
}

// write commits one row, under an idempotency key that names the subject, and
// puts the document into hot.
func (w *ward) write(k tiering.Key, r warm.Row) warm.Head {
	w.Helper()
	ensure, err := w.store.EnsureNamespace(w.ctx, warm.Namespace{Tenant: k.Tenant, Name: k.Namespace, Kind: tiering.KindState, Class: tiering.ClassPersistent})
	w.no(err)
	if ensure.Floor == 0 { // its policy is what says that there is such a namespace
		body := []byte(`{}`)
		w.commit(tiering.Key{Tenant: k.Tenant, Namespace: tiering.PolicyNamespace, ID: k.Namespace}, put(body))
	}
	if bytes.Contains(r.Body, []byte(canary)) {
		r.Idempotency = &warm.Idempotency{Tenant: k.Tenant, Key: canary + uuid.NewString(), Hash: r.Digest, Answer: fmt.Appendf(nil, `{"id":%q}`, k.ID)}
	}
	h := w.commit(k, r)
	set := hot.Set{Key: k, Entry: hot.Entry{Meta: h.Meta(), Body: r.Body}, Deleted: h.Op.Deleting(), TTL: time.Hour}
	_, err = w.hot.Set(w.ctx, set)
	w.no(err)
	return h
}

func (w *ward) commit(k tiering.Key, r warm.Row) warm.Head {
	w.Helper()
	results, err := w.store.Commit(w.ctx, &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: k, Rows: []warm.Row{r}}}})
	w.no(err)
	if got := results[0][0]; got.Status != warm.Done {
		w.Fatalf("%s of %s: %+v", r.Op, k, got)
	}
	return results[0][0].Head
}

func (w *ward) flush() {
	w.Helper()
	w.no(w.engine.Flush(w.ctx))
}

// in names a key of a namespace of the test's tenant.
func in(ns, id string) tiering.Key { return tiering.Key{Tenant: tenant, Namespace: ns, ID: id} }

// people fills the ward: for each of some subjects documents with a history
// that is archived, demoted, retired, deleted, touched, or only in warm, side
// by side in the same segments. Those of mine hold the canary.
func (w *ward) people(mine ...tiering.Key) {
	w.Helper()
	word := func(k tiering.Key) (user, body string) {
		if slices.Contains(mine, k) {
			return canary, canary
		}
		return "user-of-" + k.ID, "other"
	}
	keys := append([]tiering.Key{
		in("notes", "bob/1"), in("notes", "bob/2"), in("prefs", "bob"),
		{Tenant: "globex", Namespace: "notes", ID: "bob/1"},
	}, mine...)
	for round := range 3 {
		for _, k := range keys {
			user, body := word(k)
			w.write(k, owned(user, fmt.Sprintf(`{"text":%q,"round":%d}`, body, round)))
			w.commit(k, warm.Row{Op: tiering.OpTouch, Expiry: warm.Expiry{TTL: &tiering.TTL{Life: time.Hour}}})
		}
		if round < 2 {
			w.flush()
		}
	}
	for _, k := range keys {
		if _, err := w.store.Retire(w.ctx, k, []int64{1}); err != nil {
			w.Fatal(err)
		}
	}
	// A document whose bytes are in cold alone, and one that was deleted.
	for i, k := range mine {
		switch i {
		case 0:
			w.flush()
			done, err := w.store.Demote(w.ctx, k, 3, time.Now().Add(time.Hour))
			w.no(err)
			if !done {
				w.Fatalf("%s was not demoted", k)
			}
		case 1:
			w.write(k, row(tiering.OpDelete))
		}
	}
}

// hides returns the places that hold the word: in files as they lie there, and
// in segments unpacked.
func (w *ward) hides(word string) (places []string) {
	w.Helper()
	files, err := os.ReadDir(w.folder)
	w.no(err)
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(w.folder, f.Name()))
		w.no(err)
		if bytes.Contains(data, []byte(word)) {
			places = append(places, f.Name())
		}
	}
	if w.dump != nil {
		places = append(places, mentions(w.dump(), word)...)
	}
	for i, b := range w.buckets {
		for info, err := range b.List(w.ctx, "") {
			w.no(err)
			data, err := b.Read(w.ctx, info.Name, 0, -1)
			w.no(err)
			place := tiering.Copy(i).String() + ":" + info.Name
			if bytes.Contains(append(data, info.Name...), []byte(word)) {
				places = append(places, place)
			}
			for _, r := range w.records(data) {
				if strings.Contains(r.Key.String()+r.User+string(r.Body), word) {
					places = append(places, fmt.Sprintf("%s record %s %d", place, r.Key, r.Version))
				}
			}
		}
	}
	for _, t := range []string{tenant, "globex"} {
		for _, ns := range []string{"notes", "prefs", "scratch"} {
			w.no(w.hot.Scan(w.ctx, t, ns, "", func(k tiering.Key) bool {
				l, err := w.hot.Get(w.ctx, k, false)
				if err == nil && l.State == hot.Present && strings.Contains(k.String()+l.Entry.Meta.User+string(l.Entry.Body), word) {
					places = append(places, "hot "+k.String())
				}
				return true
			}))
		}
	}
	return places
}

// records unpacks a segment; the marker of an occupied name and an order have none.
func (w *ward) records(data []byte) (out []cold.Record) {
	s, err := cold.OpenSegment(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil
	}
	for r, err := range s.Records() {
		w.no(err)
		out = append(out, r)
	}
	return out
}

// standing is everything that a reader can get of the keys that the canary is
// not in: each version with its bytes, from warm or cold.
func (w *ward) standing() map[string]string {
	w.Helper()
	out := map[string]string{}
	heads, err := w.store.Walk(w.ctx, tiering.Key{}, 10_000)
	w.no(err)
	for _, cur := range heads {
		k := cur.Head.Key
		if strings.Contains(k.ID+cur.Head.User, canary) || k.Reserved() {
			continue
		}
		for v := int64(1); v <= cur.Head.Version; v++ {
			if row, ok, err := w.store.Version(w.ctx, k, v); err == nil && ok {
				out[fmt.Sprintf("%s:%s@%d warm", k.Tenant, k, v)] = string(row.Body)
			}
		}
		locs, err := w.store.Locations(w.ctx, k)
		w.no(err)
		for _, l := range locs {
			for v := max(l.MinVersion, 1); v <= l.MaxVersion; v++ {
				r, _, err := w.archive.Read(w.ctx, l, v)
				if errors.Is(err, tiering.ErrNotFound) {
					continue
				}
				w.no(err)
				r.Body = bytes.Clone(r.Body)
				out[fmt.Sprintf("%s:%s@%d cold", k.Tenant, k, v)] = fmt.Sprintf("%s %+v", r.Body, r)
			}
		}
	}
	return out
}

// unharmed fails the test unless the others are as they were.
func (w *ward) unharmed(before map[string]string) {
	w.Helper()
	after := w.standing()
	for _, k := range slices.Sorted(maps.Keys(before)) {
		if after[k] != before[k] {
			w.Errorf("%s was %q, is %q", k, before[k], after[k])
		}
	}
	for k := range after {
		if _, ok := before[k]; !ok {
			w.Errorf("%s came up", k)
		}
	}
}

// covered is which feed positions the finished segments of a tenant cover.
func (w *ward) covered(of string) map[int64]bool {
	w.Helper()
	segments, err := w.store.Segments(w.ctx, of, tiering.SegmentFinished, "", 1000)
	w.no(err)
	out := map[int64]bool{}
	for _, s := range segments {
		for _, r := range s.Ranges {
			for p := r.From; p <= r.To; p++ {
				out[p] = true
			}
		}
	}
	return out
}

// erase asks for an erase, not a dry run.
func (w *ward) erase(r tiering.EraseRequest) *tiering.EraseReceipt {
	w.Helper()
	run := false
	r.DryRun = &run
	receipt, err := w.engine.Erase(w.ctx, tenant, r)
	w.no(err)
	return receipt
}

// finish lets the worker go on until the erase is done.
func (w *ward) finish(id string) *tiering.EraseReceipt {
	w.Helper()
	for range 500 {
		_, err := w.engine.EraseOnce(w.ctx)
		w.no(err)
		r, err := w.engine.Erasure(w.ctx, tenant, id)
		w.no(err)
		if r.State == "done" {
			return r
		}
		time.Sleep(10 * time.Millisecond)
	}
	r, err := w.engine.Erasure(w.ctx, tenant, id)
	w.Fatalf("the erase is not done: %+v, %v", r, err)
	return nil
}

// gone fails the test unless nothing holds the canary.
func (w *ward) gone() {
	w.Helper()
	if places := w.hides(canary); len(places) > 0 {
		w.Errorf("the canary is in %s", strings.Join(places, "; "))
	}
}
