package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestServeSaysWhereItIs(t *testing.T) {
	data := filepath.Join(t.TempDir(), "new", "data")
	d := start(t, data, nil)
	if !regexp.MustCompile(`^listening on http://127\.0\.0\.1:[0-9]+$`).MatchString(d.banner[0]) {
		t.Errorf("the first line is %q", d.banner[0])
	}
	want := []string{
		"  api   " + d.url + "/v1",
		"  docs  " + d.url + "/docs",
		"  data  " + data,
		"  try   curl -X PUT " + d.url + `/v1/state/demo/hello -H 'Content-Type: application/json' -d '{"n":1}'`,
	}
	if got := strings.Join(d.banner[1:], "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}

	// What it says is true.
	req, err := http.NewRequest(http.MethodPut, d.url+"/v1/state/demo/hello", strings.NewReader(`{"n":1}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for _, r := range []*http.Request{req, get(t, d.url+"/docs"), get(t, d.url+"/readyz"), get(t, d.url+"/metrics")} {
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode > 201 {
			t.Errorf("%s %s: %s", r.Method, r.URL, res.Status)
		}
	}
	if got := d.must("get", "demo/hello"); got != "{\"n\":1}\n" {
		t.Errorf("the document is %q", got)
	}
	if code, rest := d.stop(); code != exitDone || rest != "" {
		t.Errorf("SIGTERM: exit code %d, then %q\n%s", code, rest, d.stderr)
	}
}

func get(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestServeOverTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	roots := selfSigned(t, cert, key)
	d := start(t, t.TempDir(), nil, "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(d.url, "https://127.0.0.1:") {
		t.Fatalf("it says %q", d.url)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	res, err := client.Do(get(t, d.url+"/readyz"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("ready: %s", res.Status)
	}
	// The program itself trusts what the system trusts.
	if got := execute(t, []string{"SSL_CERT_FILE=" + cert}, "", "put", "a/b", "--value", "1", "--url", d.url); got.code != exitDone {
		t.Errorf("%+v", got)
	}
	if got := execute(t, nil, "", "get", "a/b", "--url", d.url); got.code != exitUnavailable || !strings.Contains(got.stderr, "certificate") {
		t.Errorf("an unknown certificate: %+v", got)
	}
}

// selfSigned writes a certificate for 127.0.0.1 and its key.
func selfSigned(t *testing.T, cert, key string) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, block := range map[string][]byte{cert: certPEM, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})} {
		if err := os.WriteFile(name, block, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	return roots
}

func TestServeInJSON(t *testing.T) {
	cmd := program(t.Context(), nil, "serve", "--json", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said struct{ Listening, API, Docs, Data string }
	err = json.NewDecoder(out).Decode(&said)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if waited := cmd.Wait(); waited != nil || err != nil || !strings.HasPrefix(said.Listening, "http://127.0.0.1:") || said.API == "" || said.Docs == "" || said.Data == "" {
		t.Errorf("%+v, %v, %v", said, err, waited)
	}
}

func TestAcknowledgedWritesSurviveAKill(t *testing.T) {
	data := t.TempDir()
	d := start(t, data, nil)
	for i := range 3 {
		d.must("put", "agents/planner", "--value", fmt.Sprintf(`{"step":%d,"cost":1.10}`, i))
	}
	d.must("rm", "agents/planner")
	d.must("put", "agents/other", "--value", `"kept"`)
	d.kill()

	d = start(t, data, nil)
	if got := d.must("get", "agents/other"); got != "\"kept\"\n" {
		t.Errorf("got %q", got)
	}
	if got := d.must("get", "agents/planner", "--version", "3"); got != "{\"step\":2,\"cost\":1.10}\n" {
		t.Errorf("history has %q", got)
	}
	if got := d.run("get", "agents/planner"); got.code != exitNotFound {
		t.Errorf("a deleted document came back: %+v", got)
	}
	if got := d.must("put", "agents/planner", "--value", "1", "--if-absent"); got != "created agents/planner version 5\n" {
		t.Errorf("versions start anew: %q", got)
	}
}

func TestSettingsFromFileAndEnvironment(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tierd.yaml")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:0\ndata: "+filepath.Join(dir, "of-the-file")+"\nauto_create: false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startOn(t, []string{"TIERD_CONFIG=" + file, "TIERD_DATA=" + filepath.Join(dir, "of-the-environment")})
	if want := "  data  " + filepath.Join(dir, "of-the-environment"); d.banner[3] != want {
		t.Errorf("got %q, want %q", d.banner[3], want)
	}
	if got := d.run("put", "unknown/a", "--value", "1"); got.code != exitNotFound {
		t.Errorf("auto_create is off, and yet %+v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "of-the-file")); !os.IsNotExist(err) {
		t.Errorf("the folder of the file was made: %v", err)
	}
}

func TestServeThatCannotStart(t *testing.T) {
	data := t.TempDir()
	d := start(t, data, nil)
	address := strings.TrimPrefix(d.url, "http://")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"the port is taken", []string{"--listen", address, "--data", t.TempDir()}, exitFailed, []string{address + " is taken", "--listen"}},
		{"the data folder is in use", []string{"--listen", "127.0.0.1:0", "--data", data}, exitUnavailable, []string{"stop the other one that uses " + data, "--data"}},
		{"the data folder is a file", []string{"--listen", "127.0.0.1:0", "--data", file}, exitUsage, []string{"--data: " + file + " is a file"}},
		{"a server refuses what cannot be right later", []string{"--listen", "127.0.0.1:0", "--data", t.TempDir(), "--warm", "postgres://127.0.0.1:1/tierd?sslmode=nonsense"}, exitUnavailable, []string{"waiting does not cure this"}},
		{"a server does not answer", []string{"--listen", "127.0.0.1:0", "--data", t.TempDir(), "--warm", "postgres://127.0.0.1:1/tierd"}, exitUnavailable, []string{"can be reached at that address, then start again"}},
		{"a tier has no such driver", []string{"--warm", "mysql://u:s3cret@h"}, exitUsage, []string{"--warm: has no driver"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := execute(t, nil, "", append([]string{"serve"}, c.args...)...)
			if got.code != c.code || got.stdout != "" || strings.Contains(got.stderr, "s3cret") {
				t.Errorf("%+v, want exit code %d", got, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("%q lacks %q", got.stderr, want)
				}
			}
		})
	}
	d.must("put", "a/b", "--value", "1") // none of them harmed the one that runs
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	d := start(t, t.TempDir(), nil)
	// A request that never arrives whole keeps a clean stop waiting.
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "PUT /v1/state/a/b HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	d.must("put", "a/c", "--value", "1")
	began := time.Now()
	d.signal(syscall.SIGTERM)
	for refused := false; !refused; { // until the first one has been heard
		probe, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
		if refused = err != nil; !refused {
			probe.Close()
			time.Sleep(5 * time.Millisecond)
		}
	}
	d.signal(syscall.SIGTERM)
	if code, _ := d.wait(); code == exitDone {
		t.Error("it stopped cleanly")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestTheFirstKeyIsMadeWithoutADaemon(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	got := execute(t, nil, "", "keys", "create", "--data", data, "--name", "admin")
	secret := strings.TrimSpace(got.stdout)
	if got.code != exitDone || secret == "" || strings.ContainsAny(secret, " \n") || !strings.Contains(got.stderr, "shown this once") {
		t.Fatalf("%+v", got)
	}
	file := filepath.Join(t.TempDir(), "admin.key")
	if err := os.WriteFile(file, []byte(got.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	d := start(t, data, nil, "--require-keys")
	if !strings.Contains(d.banner[4], `-H "Authorization: Bearer $TIERD_API_KEY"`) {
		t.Errorf("the line to try lacks the key: %q", d.banner[4])
	}

	if got := d.run("get", "a/b"); got.code != exitFailed || !strings.Contains(got.stderr, "unauthenticated") {
		t.Errorf("without a key %+v", got)
	}
	d.must("put", "a/b", "--value", "1", "--api-key-file", file)
	if got := execute(t, nil, "", "keys", "ls", "--data", data); got.code != exitUnavailable || !strings.Contains(got.stderr, "one daemon at a time") {
		t.Errorf("the store was opened beside the daemon: %+v", got)
	}

	var reader struct{ ID, Secret string }
	made := d.must("keys", "create", "--name", "dashboard", "--verbs", "read", "--namespaces", "a", "--json", "--api-key-file", file)
	if err := json.Unmarshal([]byte(made), &reader); err != nil {
		t.Fatal(err)
	}
	env := []string{"TIERD_URL=" + d.url, "TIERD_API_KEY=" + reader.Secret}
	if got := invoke(t, env, "", "get", "a/b"); got.code != exitDone {
		t.Errorf("reading with a key for reading: %+v", got)
	}
	if got := invoke(t, env, "", "put", "a/b", "--value", "2"); got.code != exitFailed || !strings.Contains(got.stderr, "forbidden") {
		t.Errorf("writing with a key for reading: %+v", got)
	}
	list := d.must("keys", "ls", "--api-key-file", file)
	if !strings.Contains(list, "dashboard") || !strings.Contains(list, "admin") || strings.Contains(list, secret) || strings.Contains(list, reader.Secret) {
		t.Errorf("the list is\n%s", list)
	}
	d.must("keys", "revoke", reader.ID, "--api-key-file", file)
	if got := invoke(t, env, "", "get", "a/b"); got.code != exitFailed || !strings.Contains(got.stderr, "unauthenticated") {
		t.Errorf("with a revoked key %+v", got)
	}
}

func TestAKeyThatDoesNotCountIsTold(t *testing.T) {
	d := start(t, t.TempDir(), nil)
	if got := d.run("keys", "create"); got.code != exitDone || !strings.Contains(got.stderr, "started with --require-keys") {
		t.Errorf("%+v", got)
	}
	data := t.TempDir()
	d = start(t, data, nil, "--require-keys")
	if d.stop(); !strings.Contains(d.stderr.String(), "no API key") || !strings.Contains(d.stderr.String(), "tierd keys create --data "+data) {
		t.Errorf("a daemon that lets nobody in says %q", d.stderr)
	}
}

func TestTheFirstKeyChoosesTheTenant(t *testing.T) {
	data := t.TempDir()
	var env []string
	for _, tenant := range []string{"acme", "default"} {
		got := execute(t, nil, "", "keys", "create", "--data", data, "--tenant", tenant)
		if got.code != exitDone {
			t.Fatalf("%+v", got)
		}
		env = append(env, "TIERD_API_KEY="+strings.TrimSpace(got.stdout))
	}
	d := start(t, data, nil, "--require-keys")
	url := "TIERD_URL=" + d.url
	if got := invoke(t, []string{url, env[0]}, "", "put", "a/b", "--value", "1"); got.code != exitDone {
		t.Errorf("%+v", got)
	}
	if got := invoke(t, []string{url, env[1]}, "", "get", "a/b"); got.code != exitNotFound {
		t.Errorf("another tenant sees it: %+v", got)
	}
	got := invoke(t, []string{url, env[0]}, "", "keys", "create")
	if got.code != exitDone || strings.Contains(got.stderr, "--require-keys") {
		t.Errorf("a key of its own tenant: %+v", got)
	}
	if got := invoke(t, []string{url, "TIERD_API_KEY=" + strings.TrimSpace(got.stdout)}, "", "get", "a/b"); got.code != exitDone {
		t.Errorf("with it: %+v", got)
	}
	if d.stop(); strings.Contains(d.stderr.String(), "no API key") {
		t.Errorf("a daemon with keys says %q", d.stderr)
	}
}

func TestAnInsecureBindIsTold(t *testing.T) {
	d := startOn(t, nil, "--listen", "0.0.0.0:0", "--insecure", "--data", t.TempDir())
	if !strings.HasPrefix(d.url, "http://127.0.0.1:") || !strings.HasSuffix(d.banner[1], "on every other address of this machine") {
		t.Errorf("it says %q", d.banner)
	}
	d.must("put", "a/b", "--value", "1") // the address can be dialled
	if d.stop(); !strings.Contains(d.stderr.String(), "tierd: warning: --insecure: whoever reaches 0.0.0.0:0 is let in without an API key and without TLS") {
		t.Errorf("it warns of %q", d.stderr)
	}
}

// A name that a page made to mean 127.0.0.1 does not lead to a daemon without keys.
func TestADaemonWithoutKeysAnswersToLoopbackAlone(t *testing.T) {
	for _, c := range []struct {
		flags  []string
		status int
	}{{nil, 403}, {[]string{"--insecure"}, 200}, {[]string{"--require-keys"}, 401}} {
		d := start(t, t.TempDir(), nil, c.flags...)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/v1/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "evil.example"
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != c.status {
			t.Errorf("%v: %d, want %d", c.flags, res.StatusCode, c.status)
		}
		d.stop()
	}
}

func TestWatchUntilInterrupted(t *testing.T) {
	d := start(t, t.TempDir(), nil)
	d.must("put", "agents/a", "--value", `{"n":1}`)
	d.must("put", "other/x", "--value", "1")
	w := &daemon{t: t, cmd: program(t.Context(), []string{"TIERD_URL=" + d.url}, "watch", "agents", "--from", "start", "--data")}
	lines := follow(t, w)
	if got := lines(); !regexp.MustCompile(`^\S+Z  state\.put +agents/a  version 1  \{"n":1\}  \S+$`).MatchString(got) {
		t.Errorf("the first event is %q", got)
	}
	d.must("rm", "agents/a")
	deleted := lines()
	if !strings.Contains(deleted, "state.deleted") || !strings.Contains(deleted, "agents/a  version 2") {
		t.Errorf("the second event is %q", deleted)
	}
	w.signal(os.Interrupt)
	if code, rest := w.wait(); code != exitDone || rest != "" {
		t.Errorf("Ctrl-C: exit code %d, then %q", code, rest)
	}

	// The last column is where another watch goes on.
	d.must("put", "agents/b", "--value", "2")
	fields := strings.Fields(deleted)
	w = &daemon{t: t, cmd: program(t.Context(), []string{"TIERD_URL=" + d.url}, "watch", "agents", "--after", fields[len(fields)-1], "--json")}
	lines = follow(t, w)
	var event struct {
		Event, Type, Namespace, ID string
		Version                    int64
	}
	if err := json.Unmarshal([]byte(lines()), &event); err != nil || event.Type != "state.put" || event.ID != "b" || event.Version != 1 || event.Event == "" {
		t.Errorf("%+v, %v", event, err)
	}
	w.signal(syscall.SIGTERM)
	if code, _ := w.wait(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
}
