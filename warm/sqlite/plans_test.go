package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// TestPlans holds the statements that run often, or over much, to the index
// that was made for them.
func TestPlans(t *testing.T) {
	s := fresh(t)
	for _, c := range []struct{ name, query, want string }{
		{"load", `SELECT h.kid, v.body` + ofKey + ` LEFT JOIN version v ON v.kid = h.kid AND v.version = h.version` + whereKey, "version_key (kid=? AND version=?)"},
		{"list", `SELECT h.id` + ofKey + ` WHERE n.tenant = ? AND n.name = ? AND h.op = 1 AND h.id > ? AND h.id < ? ORDER BY h.id`, "sqlite_autoindex_head_1 (ns=? AND id>? AND id<?)"},
		{"list of a user", `SELECT h.id` + ofKey + ` WHERE n.tenant = ? AND n.name = ? AND h.id > ? AND h.user = ? AND h.user <> '' ORDER BY h.id`, "head_user (ns=? AND user=? AND id>?)"},
		{"expired", `SELECT h.id FROM head h WHERE h.expires > 0 AND h.flags & 1 = 0 AND h.expires <= ? ORDER BY h.expires`, "head_expires (expires>? AND expires<?)"},
		{"tombstones", `SELECT h.kid FROM head h WHERE h.ns = ? AND h.op > 1 AND h.updated < ? ORDER BY h.updated`, "head_tombstone (ns=? AND updated<?)"},
		{"bytes in version rows", `SELECT sum(size) FROM version`, "COVERING INDEX version_key"},
		{"trim", `SELECT pos FROM feed WHERE at >= ? ORDER BY pos LIMIT 1`, "SCAN feed"},
		{"batch", `SELECT results FROM feed WHERE batch = ?`, "feed_batch (batch=?)"},
		{"keys of a segment", keysIn, "COVERING INDEX location_segment (segment=? AND (tenant,namespace,id)>(?,?,?))"},
		{"heads of a user", headsOf, "head_user (ns=? AND user=?)"},
		{"requests of a window", requestsIn, "SEARCH idempotency USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		{"walk over versions", walkPage, "SEARCH v USING INDEX version_key ((kid,version)>(?,?)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var plan []string
			err := s.reader(t.Context(), func(r *conn) error {
				args := make([]any, strings.Count(c.query, "?"))
				return r.each(context.Background(), `EXPLAIN QUERY PLAN `+c.query, args, func(v []driver.Value) error {
					plan = append(plan, text(v[3]))
					return nil
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(plan, "; "); !strings.Contains(got, c.want) || strings.Contains(got, "TEMP B-TREE") {
				t.Fatalf("the plan is %s, want %s and no sorting", got, c.want)
			}
		})
	}
}

// TestPurge removes tombstones whose versions and locations are gone, as they
// are once their segments were collected.
func TestPurge(t *testing.T) {
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	s := fresh(t)
	s.opts.Clock = func() time.Time { return now }
	for i := range 5 {
		k := noteKey(fmt.Sprint("k", i))
		for _, row := range []int{1, 2, 3}[:1+i%3] {
			if _, err := commitRow(s, k, putRow(fmt.Append(nil, row))); err != nil {
				t.Fatal(err)
			}
		}
		row := putRow(nil)
		row.Op = tiering.OpDelete
		if _, err := commitRow(s, k, row); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.write(t.Context(), func(tx *txn) error {
		_, err := tx.exec(`DELETE FROM version`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	purge := func(before time.Time, limit int) int {
		t.Helper()
		n, err := s.PurgeTombstones(t.Context(), "acme", "notes", before, limit)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := purge(now, 10); n != 0 {
		t.Fatalf("%d purged that are not old yet", n)
	}
	if n := purge(now.Add(time.Hour), 2); n != 2 {
		t.Fatalf("%d purged, want the limit of 2", n)
	}
	if n := purge(now.Add(time.Hour), 10); n != 3 {
		t.Fatalf("%d purged, want the other 3", n)
	}
	cur, err := s.Load(t.Context(), noteKey("k0"))
	if err != nil || cur.Head.Version != 0 {
		t.Fatalf("a purged key stands as %+v, %v", cur.Head, err)
	}
	r, err := commitRow(s, noteKey("k0"), putRow([]byte(`1`)))
	if err != nil {
		t.Fatal(err)
	}
	if r.Head.Version != 5 {
		t.Fatalf("a key made again has version %d, want 5: one above the highest purged tombstone's", r.Head.Version)
	}
}
