package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ruleFile is a file of alerts.
type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

// ruleTests are what promtool test rules reads.
type ruleTests struct {
	Tests []struct {
		Cases []struct {
			Alert  string `json:"alertname"`
			Alerts []any  `json:"exp_alerts"`
		} `json:"alert_rule_test"`
	} `json:"tests"`
}

// promtool accepts the alerts, each fires when it should, and none does when all is well.
func TestAlerts(t *testing.T) {
	t.Parallel()
	promtool(t, "../prometheus", "check", "rules", "alerts.yaml")
	promtool(t, "../prometheus", "test", "rules", "alerts-test.yaml")
	var rules ruleFile
	decode(t, read(t, "prometheus/alerts.yaml"), &rules)
	var tests ruleTests
	decodeLoosely(t, read(t, "prometheus/alerts-test.yaml"), &tests)
	fires, silent := make(map[string]bool), make(map[string]bool)
	for _, test := range tests.Tests {
		for _, c := range test.Cases {
			fires[c.Alert] = fires[c.Alert] || len(c.Alerts) > 0
			silent[c.Alert] = silent[c.Alert] || len(c.Alerts) == 0
		}
	}
	for _, rule := range rules.Groups[0].Rules {
		if !fires[rule.Alert] || !silent[rule.Alert] {
			t.Errorf("%s: fires in a test: %v, is silent in one: %v", rule.Alert, fires[rule.Alert], silent[rule.Alert])
		}
		if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" {
			t.Errorf("%s has no severity or no summary", rule.Alert)
		}
	}
}

func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("promtool", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// startPrometheus starts it with the example's configuration for a server. It scrapes every
// second, so that the tests do not wait.
func startPrometheus(t *testing.T, s *server, files secrets) *server {
	t.Helper()
	dir := t.TempDir()
	config := strings.ReplaceAll(read(t, "prometheus/prometheus.yml"), "LEASECTL_HOST:8370", strings.TrimPrefix(s.url, "https://"))
	write(t, filepath.Join(dir, "prometheus.yml"), "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"+config)
	write(t, filepath.Join(dir, "alerts.yaml"), read(t, "prometheus/alerts.yaml"))
	write(t, filepath.Join(dir, "leasectl-token"), readToken+"\n")
	ca, err := os.ReadFile(files.ca)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "leasectl-ca.crt"), string(ca))
	promtool(t, dir, "check", "config", "prometheus.yml")

	at := fmt.Sprintf("127.0.0.1:%d", freePort(t, "127.0.0.1"))
	cmd := exec.Command("prometheus", "--config.file", "prometheus.yml", "--storage.tsdb.path", "data", "--web.listen-address", at)
	cmd.Dir = dir
	p := &server{t: t, url: "http://" + at, client: s.client}
	p.launch(cmd)
	await(t, "Prometheus is ready", func() bool { status, _ := p.get("/-/ready"); return status == 200 })
	return p
}
