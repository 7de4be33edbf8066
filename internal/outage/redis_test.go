package outage_test

import "strings"

// redisOutages: writes and reads go to PostgreSQL; what lives in Redis alone is
// unavailable.
func redisOutages(s *servers) []outage {
	away := sees{write: "not hot", hit: "warm", miss: "warm", cold: "cold", ephemeral: "503", list: "200", ready: "200"}
	return []outage{
		{tier: "Redis", how: "killed", down: s.on("kill", "redis"), up: s.on("start", "redis"), sees: away, more: redisKept},
		{tier: "Redis", how: "killed, an old AOF", long: true, sees: away, more: redisKept, up: s.on("start", "redis"), down: func() {
			s.redis("CONFIG SET appendonly no") // what it had stays on the disk, and comes back
			s.Do("kill", "redis")
		}},
		{tier: "Redis", how: "stopped", long: true, down: s.on("stop", "redis"), up: s.on("start", "redis"), sees: away, more: redisKept},
		{tier: "Redis", how: "hung", down: s.on("pause", "redis"), up: s.on("resume", "redis"), sees: away, more: redisKept},
		{tier: "Redis", how: "out of memory", long: true, sees: away, more: redisKept,
			down: func() { s.redis("CONFIG SET maxmemory 1mb") }, up: func() { s.redis("CONFIG SET maxmemory 0") }},
		{tier: "Redis", how: "flushed", sees: normal, down: func() { s.redis("FLUSHALL") }, up: func() {}, more: redisKept},
	}
}

// redisKept writes over a document that Redis holds while it is away, and is
// known to be: Redis hears nothing of it. What it kept must not come back.
func redisKept(c *cell, back bool) {
	path := "/v1/state/kept/" + c.name + "/over"
	if !back {
		c.n.must("PUT", path, `{"v":"during"}`)
		return
	}
	if a := c.n.must("GET", path, ""); !strings.Contains(string(a.body), "during") {
		c.t.Errorf("after the outage a get answers %s from %s", a.body, a.tier())
	}
}
