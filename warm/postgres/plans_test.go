package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

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
		"heads to update": updateHeads, "projections to write": upsertProjections,
		"versions to read":         readVersions,
		"memories of a namespace":  memoriesOfSpace,
		"fresh vectors of a space": memoriesIn("memory_fresh"), "indexed vectors of a space": memoriesIn("memory_vector"), "dormant vectors of a space": memoriesIn("memory_dormant"),
	} {
		t.Run(name, func(t *testing.T) { reachedByIndex(t, s.writers, sql) })
	}
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

func reachedByIndex(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, `PREPARE looked_at AS `+sql); err != nil {
		t.Fatal(err)
	}
	var text []byte
	err = conn.QueryRow(ctx, `EXPLAIN (FORMAT JSON) EXECUTE looked_at(`+strings.TrimSuffix(strings.Repeat("NULL,", parameters(sql)), ",")+`)`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, `DEALLOCATE looked_at`); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal(text, &plans); err != nil {
		t.Fatal(err)
	}
	var walk func(planNode)
	walk = func(n planNode) {
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
		for _, below := range n.Plans {
			walk(below)
		}
	}
	for _, p := range plans {
		walk(p.Plan)
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
