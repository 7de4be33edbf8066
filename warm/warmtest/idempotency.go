package warmtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// once names a request; what distinguishes the requests that share a key.
func once(key, what string) *warm.Idempotency {
	return &warm.Idempotency{Tenant: tenant, Key: key, Hash: tiering.DigestOf([]byte(what)), Answer: []byte("answer to " + what)}
}

func testIdempotency(t *testing.T, h Harness) {
	putOnce := func(body, request string) warm.Row {
		row := put(body)
		row.Idempotency = once(request, body)
		return row
	}
	t.Run("the same request answers the first result", func(t *testing.T) {
		f := setup(t, h)
		k := key("k")
		first := f.must(k, putOnce(`1`, "r"))
		f.clock.advance(time.Second)
		f.must(k, put(`2`))
		r := f.one(k, putOnce(`1`, "r"))
		f.status(r, warm.Replayed)
		equal(f, "the head", r.Head, first.Head)
		equal(f, "created", r.Created, first.Created)
		equal(f, "prev", r.Prev, first.Prev)
		equal(f, "answer", string(r.Answer), "answer to 1")
		f.body(k, `2`)
	})
	t.Run("another request under the same key is a mismatch", func(t *testing.T) {
		f := setup(t, h)
		f.must(key("k"), putOnce(`1`, "r"))
		f.status(f.one(key("k"), putOnce(`2`, "r")), warm.Mismatch)
		f.status(f.one(key("other"), putOnce(`2`, "r")), warm.Mismatch)
		f.body(key("k"), `1`)
		f.body(key("other"), "")
	})
	t.Run("keys are the tenant's own", func(t *testing.T) {
		f := setup(t, h)
		f.must(key("k"), putOnce(`1`, "r"))
		row := putOnce(`2`, "r")
		row.Idempotency.Tenant = "globex"
		f.must(key("k"), row)
	})
	t.Run("a known key comes before the condition and the namespace", func(t *testing.T) {
		f := setup(t, h)
		k := key("k")
		f.must(k, putOnce(`1`, "r"), tiering.IfAbsent())
		f.status(f.one(k, putOnce(`1`, "r"), tiering.IfAbsent()), warm.Replayed)
		row := op(tiering.OpDelete)
		row.Idempotency = once("bye", "bye")
		f.must(k, row)
		dropped, err := f.store.DropNamespace(f.ctx, tenant, space)
		f.no(err)
		equal(f, "dropped", dropped, true)
		f.status(f.one(k, putOnce(`1`, "r")), warm.Replayed)
		f.status(f.one(k, putOnce(`1`, "new")), warm.NoNamespace)
	})
	t.Run("a failed condition stores nothing", func(t *testing.T) {
		f := setup(t, h)
		k := key("k")
		f.status(f.one(k, putOnce(`1`, "r"), tiering.IfExists()), warm.Conflict)
		f.must(k, put(`0`))
		f.must(k, putOnce(`1`, "r"), tiering.IfExists())
	})
	t.Run("a request that changed nothing is remembered too", func(t *testing.T) {
		f := setup(t, h)
		row := op(tiering.OpDelete)
		row.Idempotency = once("r", "delete")
		f.status(f.one(key("k"), row), warm.NoChange)
		f.must(key("k"), put(`1`))
		f.status(f.one(key("k"), row), warm.Replayed)
		f.body(key("k"), `1`)
		equal(f, "entries of the feed", len(f.feed()), 1)
	})
	t.Run("a fold goes round again without the row that is known", func(t *testing.T) {
		f := setup(t, h)
		k := key("k")
		f.must(k, putOnce(`1`, "known"))
		results := f.commit(change(k, put(`2`), putOnce(`1`, "known"), putOnce(`3`, "new")))[0]
		f.status(results[0], warm.Again)
		f.status(results[1], warm.Replayed)
		f.status(results[2], warm.Again)
		f.body(k, `1`)
		results = f.commit(change(k, put(`2`), putOnce(`4`, "known"), putOnce(`3`, "new")))[0]
		f.status(results[0], warm.Again)
		f.status(results[1], warm.Mismatch)
		f.status(results[2], warm.Again)
		for _, r := range f.commit(change(k, put(`2`), putOnce(`3`, "new")))[0] {
			f.status(r, warm.Done)
		}
		f.body(k, `3`)
	})
	t.Run("the same request twice in one batch happens once", func(t *testing.T) {
		f := setup(t, h)
		a, b := putOnce(`1`, "r"), putOnce(`1`, "r")
		results := f.commit(change(key("a"), a), change(key("b"), b))
		f.status(results[0][0], warm.Done)
		f.status(results[1][0], warm.Replayed, warm.Again)
		f.body(key("b"), "")
		f.status(f.one(key("b"), b), warm.Replayed)
		f.body(key("b"), "")
	})
	t.Run("every part of a result comes back", func(t *testing.T) {
		f := setup(t, h)
		k := key("k")
		row := putOnce(`{"a":1}`, "r0")
		row.User, row.Expiry = "ann", ttl(time.Hour)
		rows := []warm.Row{row, op(tiering.OpTouch), op(tiering.OpPin), op(tiering.OpUnpin), op(tiering.OpDelete)}
		var first []warm.Result
		for i := range rows {
			rows[i].Idempotency = once(fmt.Sprint("r", i), "x")
			first = append(first, f.must(k, rows[i]))
			f.clock.advance(time.Minute)
		}
		for i, row := range rows {
			r := f.one(k, row)
			f.status(r, warm.Replayed)
			r.Status, r.Answer = warm.Done, nil
			if fmt.Sprintf("%+v", r) != fmt.Sprintf("%+v", first[i]) {
				t.Fatalf("%s came back as\n%+v\nwant\n%+v", row.Op, r, first[i])
			}
		}
	})
	t.Run("rows are kept until they are trimmed", func(t *testing.T) {
		f := setup(t, h)
		f.must(key("k"), putOnce(`1`, "r"))
		f.no(f.store.TrimFeed(f.ctx, f.clock.Now()))
		f.status(f.one(key("k"), putOnce(`1`, "r")), warm.Replayed)
		f.clock.advance(time.Hour)
		f.no(f.store.TrimFeed(f.ctx, f.clock.Now()))
		f.must(key("k"), putOnce(`2`, "r"))
	})
}
