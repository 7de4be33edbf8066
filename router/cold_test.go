package router

import (
	"fmt"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// Every verb works on a document whose bytes lie in cold alone, whether or not
// its policy brings them back when they are read, and whether one writer comes
// or several at once.
func TestWritesOfADemotedDocument(t *testing.T) {
	want := map[string]string{
		"put": `{"n":9}`, "merge patch": `{"n":9,"s":"x"}`, "JSON patch": `{"n":9,"s":"x"}`, "edit": `{"n":5,"s":"x"}`,
		"delete": "", "rollback": `{"n":1}`, "touch": `{"n":2,"s":"x"}`, "pin": `{"n":2,"s":"x"}`,
	}
	for _, promote := range []bool{true, false} {
		for _, v := range verbs() {
			t.Run(fmt.Sprintf("%s, promote %t", v.name, promote), func(t *testing.T) {
				t.Parallel()
				a := openArchived(t)
				a.policy(space, tiering.Policy{Promote: &promote})
				a.put("k", `{"n":1}`)
				a.put("k", `{"n":2,"s":"x"}`)
				a.demote("k")
				release := a.blockQueue()
				var tries []func() (*tiering.Receipt, error)
				for range 3 {
					tries = append(tries, call(a.world, func() (*tiering.Receipt, error) {
						return v.run(a.ctx, a.r, space, "k", tiering.WriteOptions{})
					}))
				}
				a.inLine(3)
				release()
				for _, try := range tries {
					_, err := try()
					a.no(err)
				}
				if got := a.strong("k"); got != want[v.name] {
					t.Errorf("it left %s, want %s", got, want[v.name])
				}
			})
		}
	}
}

// An atomic batch computes on a document whose bytes lie in cold.
func TestAtomicBatchOfADemotedDocument(t *testing.T) {
	stay := false
	a := openArchived(t)
	a.policy(space, tiering.Policy{Promote: &stay})
	a.put("k", `{"n":1}`)
	a.put("l", `{"n":1}`)
	a.demote("k")
	a.demote("l")
	res, err := a.r.Batch(a.ctx, &tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{
		{Op: "edit", Namespace: space, ID: "k", Ops: increment}, {Op: "get", Namespace: space, ID: "l"},
	}})
	a.no(err)
	if got := a.strong("k"); got != `{"n":2}` || string(res.Results[1].Document.Body) != `{"n":1}` {
		t.Errorf("it is %s, the batch answers %+v", got, res.Results[1].Document)
	}
}

// A write that needs bytes which no copy gives is told so and changes nothing.
func TestWriteOfADocumentThatColdCannotGive(t *testing.T) {
	a := openArchived(t)
	a.put("k", `{"n":1}`)
	a.demote("k")
	a.r.Archive = nil
	for _, v := range verbs()[1:4] {
		if _, err := v.run(a.ctx, a.r, space, "k", tiering.WriteOptions{}); tiering.CodeOf(err) != tiering.CodeCorrupt {
			t.Errorf("%s answers %v", v.name, err)
		}
	}
	cur, err := a.warm.Head(a.ctx, key("k"))
	a.no(err)
	if cur.Head.Version != 1 {
		t.Errorf("it is at version %d", cur.Head.Version)
	}
}
