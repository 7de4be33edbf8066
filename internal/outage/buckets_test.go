package outage_test

import (
	"net/http"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

// bucketOutages: writes and reads go on, nothing leaves PostgreSQL, and what
// lies in cold comes from the other bucket, or is unavailable.
func bucketOutages(s *servers) []outage {
	none := normal
	none.cold = "503"
	return []outage{
		{tier: "primary", how: "killed", down: s.on("kill", "minio"), up: s.on("start", "minio"), sees: normal, more: demotionWaits},
		{tier: "backup", how: "hung", long: true, down: s.on("pause", "minio-backup"), up: s.on("resume", "minio-backup"), sees: normal, more: demotionWaits},
		{tier: "primary", how: "hung", long: true, down: s.on("pause", "minio"), up: s.on("resume", "minio"), sees: normal, more: demotionWaits},
		{tier: "backup", how: "killed", long: true, down: s.on("kill", "minio-backup"), up: s.on("start", "minio-backup"), sees: normal, more: demotionWaits},
		{tier: "both", how: "killed", long: true, down: s.on("kill", "minio", "minio-backup"), up: s.on("start", "minio", "minio-backup"),
			sees: none, prompt: 3500 * time.Millisecond, more: demotionWaits},
		{tier: "both", how: "hung", long: true, down: s.on("pause", "minio", "minio-backup"), up: s.on("resume", "minio", "minio-backup"),
			sees: none, prompt: 3500 * time.Millisecond, more: demotionWaits},
	}
}

// demotionWaits: a document that only the bucket that is away lacks stays in
// PostgreSQL, explain says what it waits for, and status which bucket it is.
func demotionWaits(c *cell, back bool) {
	path := "kept/" + c.name + "/waits"
	if back {
		c.n.must("POST", "/v1/demote/"+path, "")
		if got := c.n.must("GET", "/v1/state/"+path, ""); got.tier() != "cold" {
			c.t.Errorf("after the outage a document that was demoted comes from %s", got.tier())
		}
		return
	}
	c.n.must("PUT", "/v1/state/"+path, `{"v":1}`)
	a := c.n.call("POST", "/v1/demote/"+path, "")
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || a.took > 12*time.Second {
		c.t.Errorf("demote was answered %d, Retry-After %q, after %v: %s", a.status, a.header.Get("Retry-After"), a.took, a.body)
	}
	var e tiering.Explanation
	c.n.must("GET", "/v1/explain/"+path, "").into(c.t, &e)
	if len(e.Next.Blocked) == 0 || !strings.Contains(strings.Join(e.Next.Blocked, " "), "cop") {
		c.t.Errorf("explain says that the next move is blocked by %q", e.Next.Blocked)
	}
	a = c.n.call("GET", "/v1/status", "")
	var st tiering.NodeStatus
	a.into(c.t, &st)
	away := 0
	for _, tier := range st.Tiers {
		if !tier.OK {
			away++
		}
	}
	if a.took > 5*time.Second || away == 0 || st.Archive.Missing+st.Archive.Behind == 0 {
		c.t.Errorf("status took %v, %d tiers are not well, the archive is %+v", a.took, away, st.Archive)
	}
}
