package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestNothingOnTheWriteReadsAWholeTable: a join with what was handed in may be
// by hash, one with a table may not, however few rows it has today.
func TestNothingOnTheWriteReadsAWholeTable(t *testing.T) {
	s, _ := fresh(t)
	for _, q := range s.puts {
		t.Run(q.name, func(t *testing.T) { reachedByIndex(t, s.committers, q.sql) })
	}
	for name, sql := range map[string]string{
		"heads to lock": lockHeads, "heads to read": readHeads, "bodies to read": readBodies, "requests to read": readRequests,
		"heads to update": updateHeads, "projections to write": upsertProjections, "projections to make": writeProjections, "projections to add": addProjections,
		"versions to read":         readVersions,
		"memories of a namespace":  memoriesOfSpace,
		"fresh vectors of a space": memoriesIn("memory_fresh"), "indexed vectors of a space": memoriesIn("memory_vector"), "dormant vectors of a space": memoriesIn("memory_dormant"),
	} {
		t.Run(name, func(t *testing.T) { reachedByIndex(t, s.writers, sql) })
	}
}

// TestAPageCostsWhatItHolds: a page of a namespace comes in the order of the index,
// from where it begins. One that is sorted costs as much as the namespace holds.
func TestAPageCostsWhatItHolds(t *testing.T) {
	s, _ := fresh(t)
	listed := func(user string, bodies bool) string {
		sql, _ := s.pageQuery(&scan{tenant: "acme", namespace: "notes", user: user, bodies: bodies, projections: bodies}, []byte("a"), true, []byte("b"), 500)
		return sql
	}
	for name, sql := range map[string]string{
		"heads of a namespace": walkHeads, "a list": listed("", false), "a list with bodies": listed("", true), "a user's list": listed("ann", false),
	} {
		t.Run(name, func(t *testing.T) {
			reachedByIndex(t, s.writers, sql)
			for _, n := range nodes(plansOf(t, s.writers, "", sql)) {
				if n.Type == "Sort" || n.Type == "Incremental Sort" {
					t.Errorf("a %s", n.Type)
				}
				if n.Relation == "head" && !strings.Contains(n.Index, "nid = ") || n.Relation == "head" && !strings.Contains(n.Index, "id > ") {
					t.Errorf("heads by %q", n.Index)
				}
			}
		})
	}
	t.Run("superseded versions, by a join that merges", func(t *testing.T) {
		for _, n := range nodes(plansOf(t, s.writers, `SET LOCAL enable_nestloop = off; SET LOCAL enable_hashjoin = off`, walkPage)) {
			if n.Relation == "head" && !strings.Contains(n.Index, "kid >= ") {
				t.Errorf("heads by %q", n.Index)
			}
		}
	})
}

// planNode is what matters here of a node of EXPLAIN.
type planNode struct {
	Type      string     `json:"Node Type"`
	Relation  string     `json:"Relation Name"`
	Name      string     `json:"Index Name"`
	Index     string     `json:"Index Cond"`
	Recheck   string     `json:"Recheck Cond"`
	Operation string     `json:"Operation"`
	Plans     []planNode `json:"Plans"`
}

// plansOf explains a statement, whatever its parameters are, under settings.
func plansOf(t *testing.T, pool *pgxpool.Pool, settings, sql string) (plans []struct{ Plan planNode }) {
	t.Helper()
	ctx := context.Background()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, before := range []string{`BEGIN`, settings, `PREPARE looked_at AS ` + sql} {
		if _, err := conn.Exec(ctx, before, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if _, err := conn.Exec(ctx, `ROLLBACK; DEALLOCATE looked_at`, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Error(err)
		}
	}()
	var text []byte
	err = conn.QueryRow(ctx, `EXPLAIN (FORMAT JSON) EXECUTE looked_at(`+strings.TrimSuffix(strings.Repeat("NULL,", parameters(sql)), ",")+`)`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &plans); err != nil {
		t.Fatal(err)
	}
	return plans
}

// nodes are all nodes of plans.
func nodes(plans []struct{ Plan planNode }) (out []planNode) {
	var walk func(planNode)
	walk = func(n planNode) {
		out = append(out, n)
		for _, below := range n.Plans {
			walk(below)
		}
	}
	for _, p := range plans {
		walk(p.Plan)
	}
	return out
}

func reachedByIndex(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	for _, n := range nodes(plansOf(t, pool, "", sql)) {
		if n.Relation != "" && strings.Contains(n.Type, "Scan") && n.Index == "" && n.Recheck == "" {
			t.Errorf("%s of all of %s", n.Type, n.Relation)
		}
		// An index is entered by its first column, or it is read as a whole too.
		if first := map[string]string{"head": `(nid|kid) = `, "version": `kid = `, "projection": `kid = `}[n.Relation]; n.Index != "" && first != "" && !regexp.MustCompile(first).MatchString(n.Index) {
			t.Errorf("%s of %s by %s", n.Type, n.Relation, n.Index)
		}
		if strings.HasPrefix(n.Index, "(sid = ") && !strings.HasSuffix(n.Name, "_sid") {
			t.Errorf("%s of %s by %s of %s", n.Type, n.Relation, n.Index, n.Name)
		}
	}
}

// parameters is how many a statement has.
func parameters(sql string) (n int) {
	for _, m := range regexp.MustCompile(`\$(\d+)`).FindAllStringSubmatch(sql, -1) {
		if i, err := strconv.Atoi(m[1]); err == nil {
			n = max(n, i)
		}
	}
	return n
}

// TestStatementsAreNamedOnce: a connection knows a statement by its name.
func TestStatementsAreNamedOnce(t *testing.T) {
	for i, q := range putsStatements() {
		if q.name != fmt.Sprint("tierd_puts_", i) || strings.Contains(q.sql, "{{") {
			t.Errorf("statement %d is %s", i, q.name)
		}
	}
}
