package redis

import (
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	tests := map[string]struct{ raw, kind, url, username, password string }{
		"one server":             {raw: "redis://u:p@h:1/2?pool_size=3", url: "redis://u:p@h:1/2?pool_size=3"},
		"one server over TLS":    {raw: "rediss://h", url: "rediss://h"},
		"a cluster":              {raw: "redis+cluster://u:p@h1:1,h2:2,h3", kind: "cluster", url: "redis://u:p@h1:1?addr=h2%3A2&addr=h3"},
		"a cluster of one known": {raw: "redis+cluster://h1", kind: "cluster", url: "redis://h1?"},
		"a cluster over TLS":     {raw: "rediss+cluster://h1,h2/0", kind: "cluster", url: "rediss://h1?addr=h2"},
		"sentinels":              {raw: "redis+sentinel://h1:1,h2:2/main", kind: "sentinel", url: "redis://h1:1/?addr=h2%3A2&master_name=main"},
		"sentinels, a database":  {raw: "redis+sentinel://h1/main/3", kind: "sentinel", url: "redis://h1/3?master_name=main"},
		"sentinels, a password":  {raw: "redis+sentinel://u:p%40ss@h1/main", kind: "sentinel", url: "redis://h1/?master_name=main", username: "u", password: "p@ss"},
		"sentinels with their own": {
			raw:  "rediss+sentinel://:p@h1/main?sentinel_username=s&sentinel_password=q",
			kind: "sentinel", url: "rediss://s:q@h1/?master_name=main", password: "p",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseAddress(test.raw)
			want := address{kind: test.kind, url: test.url, username: test.username, password: test.password}
			if err != nil || got != want {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	for name, raw := range map[string]string{
		"another scheme":        "http://u:secret@h",
		"no scheme":             "u:secret@h:6379",
		"an unknown kind":       "redis+ring://u:secret@h",
		"no host":               "redis+cluster://u:secret@",
		"no master":             "redis+sentinel://u:secret@h1,h2",
		"a database of cluster": "redis+cluster://u:secret@h/1",
		"a bad port":            "redis://u:secret@h:port",
		"a bad escape":          "redis+sentinel://u:secret%zz@h/main",
		"a bad query":           "redis+cluster://u:secret@h?a=%zz",
		"an unknown option":     "redis://u:secret@h?no_such_option=1",
		"a bad database":        "redis://u:secret@h/zero",
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), raw, nil)
			if err == nil {
				s.Close()
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%v tells the password", err)
			}
		})
	}
}

// TestServerThatIsAway: a daemon starts without Redis, too.
func TestServerThatIsAway(t *testing.T) {
	s, err := Open(t.Context(), "redis://127.0.0.1:1/0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Ping(t.Context()); err == nil {
		t.Error("Ping answers")
	}
}
