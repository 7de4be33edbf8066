package compose_test

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// rules is rules.yaml.
type rules struct {
	Groups []struct {
		Rules []rule `yaml:"rules"`
	} `yaml:"groups"`
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alerts(t *testing.T) []rule {
	t.Helper()
	var r rules
	if err := yaml.Unmarshal(read(t, "prometheus/rules.yaml"), &r); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range r.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 10 {
		t.Fatalf("only %d alerts were read", len(all))
	}
	return all
}

// dashboard is tierd.json, as far as it is looked at.
type dashboard struct {
	Panels []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct {
			X, Y, W, H int
		} `json:"gridPos"`
		Targets []struct {
			Expr       string            `json:"expr"`
			Datasource map[string]string `json:"datasource"`
		} `json:"targets"`
	} `json:"panels"`
}

func loadDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal(read(t, "grafana/dashboards/tierd.json"), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// documented maps each metric of docs/METRICS.md to its type and labels.
func documented(t *testing.T) map[string]metric {
	t.Helper()
	out := map[string]metric{}
	row := regexp.MustCompile("(?m)^\\| `(tierd_[a-z_]+)` \\| ([a-z]+) \\| [^|]* \\| ([^|]*) \\|")
	for _, m := range row.FindAllStringSubmatch(string(read(t, "../../docs/METRICS.md")), -1) {
		out[m[1]] = metric{m[2], strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' || r == ' ' })}
	}
	if len(out) < 20 {
		t.Fatalf("only %d metrics are documented", len(out))
	}
	return out
}

type metric struct {
	kind   string
	labels []string
}

var (
	selector = regexp.MustCompile(`\b(tierd_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// check reports what an expression asks of metrics that they do not have, and
// counters whose value is looked at, which restarts with the daemon: a total is
// for a number that says so.
func check(t *testing.T, where, expr string, known map[string]metric, total bool) {
	t.Helper()
	grouped := []string{}
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(m[1], ",") {
			if l = strings.TrimSpace(l); l != "le" {
				grouped = append(grouped, l)
			}
		}
	}
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		name := m[1]
		found, ok := known[name]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, cut := strings.CutSuffix(name, suffix); cut && !ok {
				found, ok = known[base]
				ok = ok && found.kind == "histogram"
			}
		}
		if !ok {
			t.Errorf("%s asks for %s, which tierd does not have", where, name)
			continue
		}
		labels := append(slices.Clone(found.labels), "job", "instance") // Prometheus' own
		asked := slices.Clone(grouped)
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			asked = append(asked, l[1])
		}
		for _, l := range asked {
			if !slices.Contains(labels, l) {
				t.Errorf("%s asks %s for the label %s: it has %v", where, name, l, found.labels)
			}
		}
		if found.kind == "counter" && !total && !regexp.MustCompile(`(rate|increase)\(`+name).MatchString(expr) {
			t.Errorf("%s takes the counter %s as it is", where, name)
		}
	}
}

func TestAlertsAskForMetricsThatAreThereAndSayWhatToDo(t *testing.T) {
	known, names := documented(t), map[string]bool{}
	for _, r := range alerts(t) {
		check(t, r.Alert, r.Expr, known, false)
		if names[r.Alert] {
			t.Errorf("%s is there twice", r.Alert)
		}
		names[r.Alert] = true
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
		if len(r.Annotations["summary"]) < 20 || len(r.Annotations["description"]) < 60 {
			t.Errorf("%s does not say what it is and what to do: %q", r.Alert, r.Annotations)
		}
	}
}

// The alerts that the service must have, by the metric that each looks at.
func TestThereIsAnAlertForWhatCanGoWrong(t *testing.T) {
	all := alerts(t)
	for _, metric := range []string{
		"up", "tierd_load_duration_seconds_bucket", "tierd_size_warnings_total", "tierd_corrupt_loads_total", "tierd_copy_checks_total",
		"tierd_archive_lag_seconds", "tierd_archive_lag_entries", "tierd_missing_copies", "tierd_parked_moves", "tierd_hot_writes_missed_total",
		"tierd_feed_lag_entries", "tierd_http_requests_total", "tierd_tier_call_errors_total",
	} {
		asks := regexp.MustCompile(`\b` + metric + `\b`)
		if !slices.ContainsFunc(all, func(r rule) bool { return asks.MatchString(r.Expr) }) {
			t.Errorf("no alert looks at %s", metric)
		}
	}
}

// promtool runs rules_test.yaml where it is installed; that every alert has a
// case there is seen everywhere.
func TestEveryAlertIsShownToFire(t *testing.T) {
	cases := string(read(t, "prometheus/rules_test.yaml"))
	for _, r := range alerts(t) {
		if !strings.Contains(cases, `alertname="`+r.Alert+`"`) {
			t.Errorf("rules_test.yaml does not show %s firing", r.Alert)
		}
	}
}

func TestPrometheusTakesItsFiles(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("no promtool here")
	}
	for _, args := range [][]string{
		{"check", "rules", "prometheus/rules.yaml"},
		{"check", "config", "--syntax-only", "prometheus/prometheus.yaml"},
		{"test", "rules", "prometheus/rules_test.yaml"},
	} {
		if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func TestTheDashboardAsksForMetricsThatAreThere(t *testing.T) {
	d, known := loadDashboard(t), documented(t)
	shown := ""
	for _, p := range d.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			check(t, p.Title, target.Expr, known, p.Type == "stat")
			if target.Datasource["uid"] != "prometheus" {
				t.Errorf("%s asks the datasource %v, which is not provisioned", p.Title, target.Datasource)
			}
			shown += target.Expr + "\n"
		}
	}
	for name := range known {
		if !strings.Contains(shown, name) {
			t.Errorf("no panel shows %s", name)
		}
	}
	if !strings.Contains(string(read(t, "grafana/provisioning/datasources/prometheus.yaml")), "uid: prometheus\n") {
		t.Error("the datasource of the dashboard is not provisioned")
	}
}

func TestThePanelsDoNotCoverEachOther(t *testing.T) {
	d := loadDashboard(t)
	for i, p := range d.Panels {
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s reaches over the edge", p.Title)
		}
		for _, q := range d.Panels[:i] {
			if p.ID == q.ID {
				t.Errorf("%s and %s have one id", p.Title, q.Title)
			}
			a, b := p.GridPos, q.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s lies over %s", p.Title, q.Title)
			}
		}
	}
}
