package outage_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgresOutages: nothing is written, what Redis holds is read and said to be
// possibly old, and nothing is said not to be there.
func postgresOutages(s *servers) []outage {
	away := sees{write: "503", hit: "hot*", miss: "503", cold: "503", ephemeral: "hot", list: "503", ready: "503"}
	return []outage{
		{tier: "PostgreSQL", how: "killed", down: s.on("kill", "postgres"), up: s.on("start", "postgres"), sees: away, more: historyAway},
		{tier: "PostgreSQL", how: "stopped", long: true, down: s.on("stop", "postgres"), up: s.on("start", "postgres"), sees: away, more: historyAway},
		{tier: "PostgreSQL", how: "hung", down: s.on("pause", "postgres"), up: s.on("resume", "postgres"), sees: away, more: historyAway},
		{tier: "PostgreSQL", how: "hung, then killed", long: true, down: s.on("pause", "postgres"), sees: away, more: historyAway, up: func() {
			s.Do("kill", "postgres")
			s.Do("start", "postgres")
		}},
		{tier: "PostgreSQL", how: "refuses connections", long: true, sees: away, more: historyAway,
			down: func() {
				s.sql(`ALTER DATABASE tierd ALLOW_CONNECTIONS false`)
				s.sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'tierd'`)
			},
			up: func() { s.sql(`ALTER DATABASE tierd ALLOW_CONNECTIONS true`) }},
	}
}

// sql runs a statement in the database beside tierd's.
func (s *servers) sql(statement string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, strings.Replace(s.Env("TIERD_WARM"), "/tierd?", "/postgres?", 1))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, statement); err != nil {
		s.t.Fatal(err)
	}
}

// historyAway asks for what only PostgreSQL knows.
func historyAway(c *cell, back bool) {
	if back {
		return
	}
	key := "kept/" + c.name
	for _, call := range [][3]string{
		{"GET", "/v1/state/" + key + "?consistency=strong", ""},
		{"GET", "/v1/state/kept/never-was", ""},
		{"GET", "/v1/state/" + key + "?version=1", ""},
		{"GET", "/v1/versions/" + key, ""},
		{"POST", "/v1/query/kept", `{"filter":{"/v":1}}`},
		{"POST", "/v1/edit/" + key, `{"ops":[{"op":"increment","pointer":"/v","by":1}]}`},
		{"DELETE", "/v1/state/" + key, ""},
		{"POST", "/v1/batch", fmt.Sprintf(`{"atomic":true,"ops":[{"op":"put","namespace":"kept","id":"%s","data":{"v":7}}]}`, c.name)},
		{"POST", "/v1/touch/" + key, `{"ttl":"1h"}`},
		{"GET", "/v1/explain/" + key, ""},
	} {
		if a := c.ask(call[0], call[1], call[2]); a.status != http.StatusServiceUnavailable {
			c.t.Errorf("%s %s was answered %d: %s", call[0], call[1], a.status, a.body)
		}
	}
}
