package config

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/internal/cost"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, src Sources) *Loaded {
	t.Helper()
	l, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestPrecedence(t *testing.T) {
	file := write(t, "tierd.yaml", "# tiers\nhot: redis://file\nlisten: 127.0.0.1:1\n")
	for _, c := range []struct {
		name    string
		flags   map[string]string
		environ []string
		want    Value
	}{
		{"nobody says anything", nil, nil, Value{"hot", "memory:", "default"}},
		{"the file, by its flag", map[string]string{"config": file}, nil, Value{"hot", "redis://file", file + ":2"}},
		{"the file, by its variable", nil, []string{"TIERD_CONFIG=" + file}, Value{"hot", "redis://file", file + ":2"}},
		{"a variable over the file", map[string]string{"config": file}, []string{"TIERD_HOT=redis://env"}, Value{"hot", "redis://env", "TIERD_HOT"}},
		{"a flag over both", map[string]string{"config": file, "hot": "redis://flag"}, []string{"TIERD_HOT=redis://env"}, Value{"hot", "redis://flag", "--hot"}},
		{"an empty variable is unset", map[string]string{"config": file}, []string{"TIERD_HOT="}, Value{"hot", "redis://file", file + ":2"}},
		{"a variable without the prefix", nil, []string{"HOT=redis://env"}, Value{"hot", "memory:", "default"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := load(t, Sources{Flags: c.flags, Environ: c.environ})
			if got := l.Value("hot"); got != c.want || l.Hot != c.want.Text {
				t.Errorf("hot is %+v (%q in Config), want %+v", got, l.Hot, c.want)
			}
			if len(l.Faults) > 0 {
				t.Errorf("faults %v", l.Faults)
			}
		})
	}
}

func TestEverySettingReachesItsField(t *testing.T) {
	l := load(t, Sources{Flags: map[string]string{
		"listen": "127.0.0.1:1", "data": "d", "hot": "redis://h", "warm": "postgres://w", "cold": "s3://c", "backup": "s3://b",
		"vector": "pgvector:", "embed": "openai+https://e", "summarise": "openai+http://s", "hot_bytes": "1MiB", "auto_create": "false",
		"require_keys": "true", "insecure": "true", "tls_cert": "c.pem", "tls_key": "k.pem", "log_level": "DEBUG", "log_format": "json", "prices": "put=1",
	}})
	want := Config{"127.0.0.1:1", "d", "redis://h", "postgres://w", "s3://c", "s3://b", "pgvector:", "openai+https://e", "openai+http://s", 1 << 20,
		false, true, true, "c.pem", "k.pem", "debug", "json",
		cost.Prices{Hot: 0.12, Warm: 0.023, Cold: 0.0023, Put: 1, Get: 0.0004}}
	if l.Config != want {
		t.Errorf("got %+v\nwant %+v", l.Config, want)
	}
	if len(l.Faults) > 0 {
		t.Errorf("faults %v", l.Faults)
	}
}

// In the file prices may be a list of its own; what it leaves out has its default.
func TestPricesMayBeAMapping(t *testing.T) {
	file := write(t, "tierd.yaml", "prices:\n  hot: 0.09\n  put: 0\n")
	l := load(t, Sources{Flags: map[string]string{"config": file}})
	want := cost.Defaults()
	want.Hot, want.Put = 0.09, 0
	if l.Prices != want || l.Value("prices").Source != file+":1" || len(l.Faults) > 0 {
		t.Errorf("%+v from %q, faults %v", l.Prices, l.Value("prices").Source, l.Faults)
	}
}

func TestFaultsNameTheirPlace(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		file    string
		environ []string
		flags   map[string]string
		source  string // suffix of the place
		detail  string // part of the detail
	}{
		{"an unknown key", "listen: 127.0.0.1:0\nhott: redis://h\n", nil, nil, "tierd.yaml:2", `unknown key "hott" (did you mean "hot"?)`},
		{"a flag's spelling in the file", "hot-bytes: 1MiB\n", nil, nil, "tierd.yaml:1", `did you mean "hot_bytes"?`},
		{"a key twice", "hot: 'memory:'\nhot: 'memory:'\n", nil, nil, "tierd.yaml:2", `"hot" stands on line 1 already: write each setting once`},
		{"no YAML", "listen: x\nhot: memory:\n", nil, nil, "tierd.yaml", "line 2"},
		{"a price of nothing", "prices: {ice: 1}\n", nil, nil, "tierd.yaml:1", `no price "ice"`},
		{"a price below nothing", "", []string{"TIERD_PRICES=hot=-1"}, nil, "TIERD_PRICES", "not negative"},
		{"a mapping", "hot: {a: b}\n", nil, nil, "tierd.yaml:1", "one value"},
		{"a list", "hot: [a]\n", nil, nil, "tierd.yaml:1", "one value"},
		{"a bad value in the file", "\n\nauto_create: perhaps\n", nil, nil, "tierd.yaml:3", "true or false"},
		{"no such file", "", nil, map[string]string{"config": filepath.Join(dir, "absent.yaml")}, "absent.yaml", "no such file"},
		{"a bad value in a variable", "", []string{"TIERD_HOT_BYTES=lots"}, nil, "TIERD_HOT_BYTES", "256MiB"},
		{"an unknown variable", "", []string{"TIERD_HOTT=memory:"}, nil, "TIERD_HOTT", `did you mean "TIERD_HOT"?`},
		{"an unknown scheme", "", nil, map[string]string{"warm": "postgre://h"}, "--warm", `did you mean "postgres"?`},
		{"another tier's scheme", "", nil, map[string]string{"hot": "s3://b"}, "--hot", "use one of memory:"},
		{"no scheme", "", nil, map[string]string{"cold": "bucket"}, "--cold", "is no URL"},
		{"no host", "", nil, map[string]string{"hot": "redis://"}, "--hot", "names no host"},
		{"no bucket", "", nil, map[string]string{"cold": "s3:///prefix"}, "--cold", "names no bucket"},
		{"no port", "", nil, map[string]string{"listen": "127.0.0.1"}, "--listen", "HOST:PORT"},
		{"a port out of range", "", nil, map[string]string{"listen": "127.0.0.1:70000"}, "--listen", "HOST:PORT"},
		{"an unknown level", "", nil, map[string]string{"log_level": "inf"}, "--log-level", `did you mean "info"?`},
		{"a data folder that is a file", "", nil, map[string]string{"data": plain}, "--data", "is a file"},
		{"a data folder below a file", "", nil, map[string]string{"data": filepath.Join(plain, "x")}, "--data", "not a directory"},
		{"cold and backup in one folder", "", nil, map[string]string{"cold": "dir:" + dir, "backup": "dir:" + dir + "/"}, "--backup", "same place"},
		{"cold and backup in one bucket", "", nil, map[string]string{"cold": "s3://b/p?region=x", "backup": "s3://b/p/?region=x&profile=y"}, "--backup", "same place"},
		{"pgvector without PostgreSQL", "", nil, map[string]string{"vector": "pgvector:"}, "--vector", "warm is sqlite"},
		{"a certificate without its key", "", nil, map[string]string{"tls_cert": plain}, "--tls-cert", "set both or neither"},
		{"a key without its certificate", "", nil, map[string]string{"tls_key": plain}, "--tls-key", "set both or neither"},
		{"a certificate that is not there", "", nil, map[string]string{"tls_cert": filepath.Join(dir, "c.pem"), "tls_key": plain}, "--tls-cert", "cannot be read"},
		{"a certificate that is none", "", nil, map[string]string{"tls_cert": plain, "tls_key": plain}, "--tls-cert", "does not go together with tls_key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags := map[string]string{"data": t.TempDir()}
			if c.file != "" {
				flags["config"] = write(t, "tierd.yaml", c.file)
			}
			maps.Copy(flags, c.flags)
			faults := load(t, Sources{Flags: flags, Environ: c.environ}).Check(time.Now())
			if len(faults) != 1 {
				t.Fatalf("faults %v, want one", faults)
			}
			if !strings.HasSuffix(faults[0].Source, c.source) || !strings.Contains(faults[0].Detail, c.detail) {
				t.Errorf("got %q, want it at %q with %q", faults[0], c.source, c.detail)
			}
			if wantWarning := c.name == "an unknown variable"; faults[0].Warning != wantWarning {
				t.Errorf("warning is %v", faults[0].Warning)
			}
		})
	}
}

func TestAFaultNamesItsSettingOnce(t *testing.T) {
	file := write(t, "tierd.yaml", "require_keys: perhaps\n")
	for _, c := range []struct {
		name string
		src  Sources
		want string
	}{
		{"a flag", Sources{Flags: map[string]string{"hot_bytes": "lots"}}, "--hot-bytes: use a size in bytes above 0, such as 268435456, 256MiB or 1GiB"},
		{"a variable", Sources{Environ: []string{"TIERD_REQUIRE_KEYS=x"}}, "TIERD_REQUIRE_KEYS: use true or false"},
		{"a line of a file, which does not name it", Sources{Flags: map[string]string{"config": file}}, file + ":1: require_keys: use true or false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults := load(t, c.src).Faults
			if len(faults) != 1 || faults[0].String() != c.want {
				t.Errorf("got %q, want %q", faults, c.want)
			}
		})
	}
}

// A file means the same wherever the daemon is started.
func TestPathsInAFileCountFromItsFolder(t *testing.T) {
	file := write(t, "tierd.yaml", "data: data\nwarm: 'sqlite:db/warm.db'\ncold: 'dir:/mnt/cold'\nbackup: 'dir:../backup'\ntls_cert: cert.pem\nhot: redis://h/0\n")
	folder := filepath.Dir(file)
	l := load(t, Sources{Flags: map[string]string{"config": file, "tls_key": "key.pem"}})
	for name, want := range map[string]string{
		"data": filepath.Join(folder, "data"), "warm": "sqlite:" + filepath.Join(folder, "db/warm.db"), "cold": "dir:/mnt/cold",
		"backup": "dir:" + filepath.Join(filepath.Dir(folder), "backup"), "tls_cert": filepath.Join(folder, "cert.pem"),
		"hot": "redis://h/0", "tls_key": "key.pem", "listen": "127.0.0.1:8437",
	} {
		if got := l.Value(name).Text; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if l.Data != filepath.Join(folder, "data") {
		t.Errorf("Config has %q", l.Data)
	}
	if l := load(t, Sources{Flags: map[string]string{"data": "data", "cold": "dir:cold"}}); l.Data != "data" || l.Cold != "dir:cold" {
		t.Errorf("flags have %q and %q: they count from the working directory", l.Data, l.Cold)
	}
}

func TestGoodConfigurationsHaveNoFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags map[string]string
	}{
		{"the defaults", nil},
		{"a folder to be made", map[string]string{"data": filepath.Join(t.TempDir(), "a", "b")}},
		{"servers", map[string]string{
			"hot": "redis+cluster://a:1,b:2", "warm": "postgres://tierd@127.0.0.1/tierd", "vector": "pgvector:",
			"cold":   "s3://b/p?endpoint=http://127.0.0.1:9000&path_style=true",
			"backup": "s3://b/p?endpoint=http://127.0.0.1:9001&client=minio", "embed": "openai+https://host/v1?model=m",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags := map[string]string{"data": t.TempDir()}
			maps.Copy(flags, c.flags)
			if faults := load(t, Sources{Flags: flags}).Check(time.Now()); len(faults) > 0 {
				t.Errorf("faults %v", faults)
			}
		})
	}
}

func TestCheckLeavesTheDataFolderAlone(t *testing.T) {
	dir := t.TempDir()
	load(t, Sources{Flags: map[string]string{"data": filepath.Join(dir, "new")}}).Check(time.Now())
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("left %v behind (%v)", entries, err)
	}
}

func TestCredentialsAreNeverShown(t *testing.T) {
	for in, want := range map[string]string{
		"memory:":                                 "memory:",
		"./tierd-data":                            "./tierd-data",
		"redis://h:6379/0":                        "redis://h:6379/0",
		"redis://:s3cret@h:6379/0":                "redis://***@h:6379/0",
		"postgres://u:s3cret@h/db?sslmode=x":      "postgres://***@h/db?sslmode=x",
		"redis://u:s3c/ret@h":                     "redis://***@h",
		"redis://u:s3c?ret@h":                     "redis://***@h",
		"redis://u:s3c@ret@h":                     "redis://***@h",
		"openai+https://h/v1?model=m&api_key=s3c": "openai+https://h/v1?model=m&api_key=***",
		"postgres://h/db?password=s3c&a=b":        "postgres://h/db?password=***&a=b",
	} {
		if got := Redact(in); got != want {
			t.Errorf("Redact(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestFaultsNeverQuoteACredential(t *testing.T) {
	for _, url := range []string{
		"redis://u:s3cret:x@h:y", "redis://u:s3cret/x@h", "redis://u:s3cret%zz@h", "s3cret", "u:s3cret@h", "hunter-S3cret://h", "memory:s3cret",
	} {
		l := load(t, Sources{Flags: map[string]string{"data": t.TempDir(), "hot": url}})
		faults := l.Check(time.Now())
		if len(faults) == 0 {
			t.Errorf("%s passed", url)
		}
		for _, f := range faults {
			if strings.Contains(strings.ToLower(f.String()), "s3c") {
				t.Errorf("%s: %s", url, f)
			}
		}
	}
	file := write(t, "tierd.yaml", "hot: redis://:s3cret@h\n  warm: x\n")
	for _, f := range load(t, Sources{Flags: map[string]string{"config": file}}).Faults {
		if strings.Contains(f.String(), "s3c") {
			t.Errorf("YAML: %s", f)
		}
	}
}
