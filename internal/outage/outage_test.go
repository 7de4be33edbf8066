// Package outage takes away each tier of a node in turn, by killing, freezing
// and spoiling real servers, and looks at what a client sees: while the tier is
// away, and once it is back.
package outage_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering"
)

// What every cell may take.
const (
	notice  = 5 * time.Second  // from the outage until the node knows of it, and the slowest call
	within  = 10 * time.Second // from the tier's return until everything is as before
	slowest = 5 * time.Second  // for any call, while the node does not know yet
	prompt  = time.Second      // for any call, once it does
)

// outage is one row of the table: a tier, how it goes away and comes back, and
// what a client sees meanwhile.
type outage struct {
	tier, how string
	down, up  func()
	long      bool // for make failover alone
	sees      sees
	// slowest and prompt, where they are not those of all cells.
	slowest, prompt time.Duration
	// more is asked while the tier is away and once it is back.
	more func(c *cell, back bool)
}

// sees is what a client sees during an outage. Reads are told by the tier that
// served them, with a star when the answer may be old, or by their status.
type sees struct {
	write, hit, miss, cold, ephemeral, list, ready string
}

// normal is what a client sees when nothing is wrong.
var normal = sees{write: "hot", hit: "hot", miss: "warm", cold: "cold", ephemeral: "hot", list: "200", ready: "200"}

// TestWhenATierIsDown is the table "when a tier is down", for a daemon that is
// alone and for two that share the tiers.
func TestWhenATierIsDown(t *testing.T) {
	s := startServers(t)
	c := tierd.Config{
		Hot: s.Env("TIERD_HOT"), Warm: s.Env("TIERD_WARM"), Cold: s.Env("TIERD_COLD"), Backup: s.Env("TIERD_BACKUP") + "&client=minio",
		SegmentAge: 500 * time.Millisecond,
	}
	n := startNode(t, c)
	prepare(n)
	runAll(t, n, slices.Concat(redisOutages(s), postgresOutages(s), bucketOutages(s)))
	n.beside = startNode(t, c)
	runAll(t, n, sharedOutages(s))
}

// runAll runs cells one after the other, and prints the table of what they took.
func runAll(t *testing.T, n *node, cells []outage) {
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-8s %-22s %-7s %-6s %-5s %-5s %-10s %-5s %-6s %-12s %-12s %-9s %s\n",
		"tier", "how", "write", "hit", "miss", "cold", "ephemeral", "list", "ready", "slowest", "then at most", "back in", "versions (tries that failed)")
	for _, o := range cells {
		name := o.tier + " " + o.how
		if n.beside != nil {
			name += ", two daemons"
		}
		t.Run(name, func(t *testing.T) {
			if o.long && os.Getenv("FAILOVER") == "" {
				t.Skip("one of the cells that take long: make failover")
			}
			table.WriteString(run(t, n, o))
		})
	}
	n.t = t
	t.Log(table.String())
}

// prepare makes the namespaces: documents that hot keeps, that it does not
// keep, that are read from cold every time, and that live in hot alone.
func prepare(n *node) {
	n.t.Helper()
	for ns, policy := range map[string]string{
		space: `{"keep_versions":100000}`, "kept": `{}`, "passing": `{"hot_ttl":"1ms"}`,
		"deep": `{"hot_ttl":"1ms","promote":false}`, "light": `{"class":"ephemeral"}`,
	} {
		n.must("PUT", "/v1/namespaces/"+ns, policy)
	}
}

// cell is one outage under way.
type cell struct {
	*outage
	t    *testing.T
	n    *node
	name string
	deep int // documents in cold that were read
	asks int // which daemon is asked, where there are two

	mu   sync.Mutex
	took []time.Duration // of the calls since the last reset
}

// run takes a tier away, looks, brings it back, and accounts. It returns the
// row of the table.
func run(t *testing.T, n *node, o outage) string {
	n.t = t
	c := &cell{outage: &o, t: t, n: n, name: strings.ReplaceAll(o.tier+"-"+o.how, " ", "-")}
	if n.beside != nil {
		c.name += "-two"
	}
	c.sinkDeep()
	n.must("PUT", "/v1/state/kept/"+c.name, `{"v":1}`)
	n.must("PUT", "/v1/state/kept/"+c.name+"/over", `{"v":"before"}`)
	n.must("PUT", "/v1/state/passing/"+c.name, `{"v":1}`)
	n.must("PUT", "/v1/state/light/"+c.name, `{"v":1}`)
	c.await("before the outage", normal, within)
	tr := startTraffic(t, n, c.name)
	time.Sleep(200 * time.Millisecond)

	away := true
	defer func() {
		if away { // the cell was given up: those after it go on
			o.up()
		}
	}()
	o.down()
	c.reset()
	c.await("during the outage", o.sees, max(notice, o.slowest))
	worst := c.reset()
	if worst > max(slowest, o.slowest) {
		t.Errorf("a call took %v", worst)
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if got := c.look(); got != o.sees {
			t.Errorf("during the outage a client sees %+v, want %+v", got, o.sees)
		}
	}
	if o.more != nil {
		o.more(c, false)
	}
	then := c.reset()
	if then > max(prompt, o.prompt) {
		t.Errorf("once the outage was known a call took %v", then)
	}

	o.up()
	away = false
	began := time.Now()
	c.await("after the outage", normal, within)
	c.drained(began)
	back := time.Since(began)
	if o.more != nil {
		o.more(c, true)
	}
	versions, retried := tr.finish()
	if got := n.must("GET", "/v1/state/kept/"+c.name, ""); string(got.body) != `{"v":1}` {
		t.Errorf("what stood before the outage is %s", got.body)
	}
	return fmt.Sprintf("%-8s %-22s %-7s %-6s %-5s %-5s %-10s %-5s %-6s %-12v %-12v %-9v %d (%d)\n", o.tier, o.how, o.sees.write, o.sees.hit, o.sees.miss,
		o.sees.cold, o.sees.ephemeral, o.sees.list, o.sees.ready, worst.Round(time.Millisecond), then.Round(time.Millisecond), back.Round(10*time.Millisecond), versions, retried)
}

// deepDocs is how many documents of a cell lie in cold.
const deepDocs = 2

// sinkDeep puts documents into cold, of which none was read yet: a block that
// was read twice would be served from memory.
func (c *cell) sinkDeep() {
	c.t.Helper()
	for i := range deepDocs {
		id := fmt.Sprintf("%s/%d", c.name, i)
		c.n.must("PUT", "/v1/state/deep/"+id, fmt.Sprintf(`{"deep":%d}`, i))
		c.n.must("POST", "/v1/demote/deep/"+id, "")
	}
}

// await looks until a client sees what it should, of every daemon.
func (c *cell) await(when string, want sees, limit time.Duration) {
	c.t.Helper()
	deadline := time.Now().Add(limit)
	for seen := 0; ; {
		got := c.look()
		if got == want {
			if seen++; seen > 1 || c.n.beside == nil {
				return
			}
			continue
		}
		if seen = 0; time.Now().After(deadline) {
			c.t.Fatalf("%s, after %v, a client sees %+v, want %+v", when, limit, got, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// drained waits until the archive has everything from before the tier's return,
// twice.
func (c *cell) drained(began time.Time) {
	c.t.Helper()
	for deadline := began.Add(within); ; {
		var st tiering.NodeStatus
		c.n.must("GET", "/v1/status", "").into(c.t, &st)
		// The traffic goes on: what came since is no backlog.
		late := st.Archive.Behind > 0 && st.Archive.OldestTime.Before(began)
		if st.Ready && st.Archive.Missing == 0 && !late {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%v after its return the archive is %+v, parked %+v", within, st.Archive, st.Parked)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// reset returns the longest that a call took since the reset before.
func (c *cell) reset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var worst time.Duration
	for _, d := range c.took {
		worst = max(worst, d)
	}
	c.took = nil
	return worst
}

// ask is a call whose time counts. Nothing may ever be answered with a 500,
// and no refusal without a Retry-After.
func (c *cell) ask(method, path, body string, headers ...string) answer {
	c.t.Helper()
	url := c.n.url
	if c.n.beside != nil && c.asks%2 == 1 {
		url = c.n.beside.url
	}
	a := c.n.callAt(url, method, path, body, headers...)
	c.mu.Lock()
	c.took = append(c.took, a.took)
	c.mu.Unlock()
	if a.status == http.StatusInternalServerError || a.status == http.StatusNotFound {
		c.t.Errorf("%s %s was answered %d: %s", method, path, a.status, a.body)
	}
	if a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "" {
		c.t.Errorf("%s %s was answered 503 without Retry-After", method, path)
	}
	return a
}

// read is what a get came back with.
func (c *cell) read(path, want string) string {
	c.t.Helper()
	a := c.ask("GET", path, "")
	if a.status != http.StatusOK {
		return fmt.Sprint(a.status)
	}
	if string(a.body) != want {
		c.t.Errorf("GET %s: %s from %s, want %s", path, a.body, a.tier(), want)
	}
	return a.tier()
}

// look is what a client sees now, of one daemon; the next is of the other.
func (c *cell) look() sees {
	c.t.Helper()
	c.asks++
	var s sees
	if a := c.ask("PUT", "/v1/state/kept/"+c.name+"/written", `{"v":2}`); a.status > 299 {
		s.write = fmt.Sprint(a.status)
	} else if a.receipt(c.t).Hot {
		s.write = "hot"
	} else {
		s.write = "not hot"
	}
	s.hit = c.read("/v1/state/kept/"+c.name, `{"v":1}`)
	s.miss = c.read("/v1/state/passing/"+c.name, `{"v":1}`)
	i := c.deep % deepDocs
	c.deep++
	s.cold = c.read(fmt.Sprintf("/v1/state/deep/%s/%d", c.name, i), fmt.Sprintf(`{"deep":%d}`, i))
	if a := c.ask("PUT", "/v1/state/light/"+c.name, `{"v":1}`); a.status > 299 {
		s.ephemeral = fmt.Sprint(a.status)
	} else {
		s.ephemeral = "hot"
	}
	s.list = fmt.Sprint(c.ask("GET", "/v1/state/kept?limit=1", "").status)
	s.ready = fmt.Sprint(c.ask("GET", "/readyz", "").status)
	if a := c.ask("GET", "/healthz", ""); a.status != http.StatusOK {
		c.t.Errorf("/healthz: %d", a.status)
	}
	return s
}
