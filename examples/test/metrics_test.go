package test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// dashboard is what we need to know of Grafana's.
type dashboard struct {
	Templating struct {
		List []struct {
			Name  string          `json:"name"`
			Query json.RawMessage `json:"query"`
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct{ X, Y, W, H int }
		Targets []struct {
			Expr         string `json:"expr"`
			LegendFormat string `json:"legendFormat"`
		} `json:"targets"`
	} `json:"panels"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, "grafana/leases.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// No two panels are in one place, or have one id.
func TestDashboardLayout(t *testing.T) {
	taken, ids := make(map[[2]int]string), make(map[int]bool)
	for _, p := range readDashboard(t).Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: id or title", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" || at[0] >= 24 {
					t.Errorf("%s and %s are in one place", taken[at], p.Title)
				}
				taken[at] = p.Title
			}
		}
	}
}

// metricsOfAll is a server with all kinds of pools, to which everything has happened that the
// alerts and the dashboard count. It is alone on an etcd.
func metricsOfAll(t *testing.T) (*server, secrets) {
	t.Helper()
	dir := t.TempDir()
	files := makeSecrets(t, dir)
	etcd := startEtcd(t, files, "leases/")
	pools := write(t, filepath.Join(dir, "pools.yaml"), `resources:
- {type: install, min-count: 2, max-count: 2, max_waiters: 1, adapt: {floor: 1, start: 2}}
- {type: paced, min-count: 4, max-count: 4, hold: 20m, pace: auto}
- {type: mem, units: 1024, unit: 1Mi, unknown: 128}
`)
	auth := writePrivate(t, filepath.Join(dir, "auth.yaml"), `issuers:
- issuer: https://127.0.0.1:1 # where nobody listens
  audience: leasectl
  rules: [{claims: {sub: "*"}, name: "{sub}"}]
`)
	s := &server{t: t, token: readToken, client: files.httpClient(t)}
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t, "127.0.0.1"))
	s.start(serveCommand("--listen", address, "--advertise", "https://"+address, "--config", pools,
		"--tokens", files.tokens, "--auth", auth, "--tls-cert", files.cert, "--tls-key", files.key,
		"--data", "etcds://"+etcd+"/leases", "--data-ca", files.ca,
		"--data-credentials", write(t, filepath.Join(dir, "credentials"), "leasectl:"+etcdPassword)))
	await(t, "the server leads", func() bool { status, _ := s.get("/readyz"); return status == 200 })

	j := newJob(t, "LEASE_PROXY_SERVER_URL="+s.url, "LEASECTL_CA="+files.ca, "LEASECTL_TOKEN_FILE="+write(t, filepath.Join(dir, "token"), jobToken))
	do := func(code int, line string) { t.Helper(); j.start(nil, "bash", "-c", line).exits(code) }
	do(4, "leasectl exec --type install --throttled-on 4 -- bash -c 'exit 4'")
	do(0, "leasectl exec --type mem -- true")
	do(0, "leasectl acquire --type paced")
	do(0, "leasectl acquire --type install")
	waits := j.start(nil, "bash", "-c", "exec leasectl acquire --type install")
	await(t, "a job waits", func() bool { return s.waiting("install") == 1 })
	do(75, "leasectl acquire --type install --wait-timeout 1s") // the queue is full
	waits.Process.Kill()
	write(t, pools, "resources: nonsense\n")
	s.cmd.Process.Signal(syscall.SIGHUP)
	await(t, "the server has found a file that is wrong", func() bool { return s.metric(`leasectl_warning{source="config"}`) == 1 })
	return s, files
}

// samples are the labels of each metric, with the values that there are.
func samples(text string) map[string]map[string][]string {
	all := make(map[string]map[string][]string)
	for _, m := range regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? \S+$`).FindAllStringSubmatch(text, -1) {
		if all[m[1]] == nil {
			all[m[1]] = map[string][]string{"instance": nil, "job": nil} // from Prometheus
		}
		for _, l := range regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(m[2], -1) {
			all[m[1]][l[1]] = append(all[m[1]][l[1]], l[2])
		}
	}
	return all
}

// checkNames reports metrics and labels of an expression that the server does not print, and
// values that a label never has.
func checkNames(t *testing.T, what, expr string, all map[string]map[string][]string) {
	t.Helper()
	labels := make(map[string]bool)
	metrics := regexp.MustCompile(`\b((?:leasectl|process|go)_\w+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(expr, -1)
	if len(metrics) == 0 {
		t.Errorf("%s: no metric in %s", what, expr)
	}
	for _, m := range metrics {
		known, ok := all[m[1]]
		if !ok {
			t.Errorf("%s: the server has no %s", what, m[1])
			continue
		}
		for label := range known {
			labels[label] = true
		}
		for _, l := range regexp.MustCompile(`(\w+)(=~|=)"([^"]*)"`).FindAllStringSubmatch(m[2], -1) {
			if values, ok := known[l[1]]; !ok || l[2] == "=" && !slices.Contains(values, l[3]) {
				t.Errorf("%s: %s has no %s=%q, but %q", what, m[1], l[1], l[3], values)
			}
		}
	}
	for _, m := range regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(m[1], ",") {
			if !labels[strings.TrimSpace(label)] {
				t.Errorf("%s: nothing in %s has a label %s", what, expr, label)
			}
		}
	}
}

// What the server prints follows the conventions, as promtool has them; every metric, label and
// value in the alerts and the dashboard is one that it prints; and Prometheus, with the example's
// configuration, has something to show in every panel.
func TestMetricsExist(t *testing.T) {
	t.Parallel()
	s, files := metricsOfAll(t)
	_, text := s.get("/metrics")
	conventions := exec.Command("promtool", "check", "metrics")
	conventions.Stdin = strings.NewReader(text)
	if out, err := conventions.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	all := samples(text)
	var rules ruleFile
	decode(t, read(t, "prometheus/alerts.yaml"), &rules)
	for _, rule := range rules.Groups[0].Rules {
		checkNames(t, rule.Alert, rule.Expr, all)
	}
	d := readDashboard(t)
	for _, v := range d.Templating.List {
		if v.Name == "type" {
			checkNames(t, "the variable "+v.Name, string(v.Query), all)
		}
	}
	p := startPrometheus(t, s, files)
	query := strings.NewReplacer("$type", ".*", "$__rate_interval", "10s", "[1h]", "[10s]")
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			checkNames(t, panel.Title, target.Expr, all)
			var labels []map[string]string
			await(t, panel.Title+" shows something: "+target.Expr, func() bool {
				labels = p.query(query.Replace(target.Expr))
				return len(labels) > 0
			})
			for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if _, ok := labels[0][m[1]]; !ok {
					t.Errorf("%s: the legend names %s, and what is shown has %v", panel.Title, m[1], labels[0])
				}
			}
		}
	}
	await(t, "the alert of a file that is wrong is pending", func() bool {
		return len(p.query(`ALERTS{alertname="LeaseSettingsRejected"}`)) == 1
	})
	if firing := p.query(`ALERTS{alertname="LeasesNotServed"}`); len(firing) > 0 {
		t.Errorf("the alert of a server that is away: %v", firing)
	}
}

// query asks Prometheus, and returns the labels of what it finds.
func (s *server) query(expr string) (labels []map[string]string) {
	s.t.Helper()
	status, text := s.get("/api/v1/query?" + url.Values{"query": {expr}}.Encode())
	var reply struct {
		Data struct {
			Result []struct{ Metric map[string]string }
		}
	}
	if err := json.Unmarshal([]byte(text), &reply); err != nil || status != 200 {
		s.t.Fatalf("%s: %d %s", expr, status, text)
	}
	for _, r := range reply.Data.Result {
		labels = append(labels, r.Metric)
	}
	return labels
}
