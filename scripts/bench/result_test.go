package main

import (
	"strings"
	"testing"
)

func TestQuantile(t *testing.T) {
	values := []float64{10, 1, 9, 2, 8, 3, 7, 4, 6, 5}
	if m := median("x", values); m.Value != 5 || m.Low != 1 || m.High != 9 || m.Values != 10 {
		t.Errorf("median of 1 to 10 is %+v", m)
	}
	if m := quantile("x", values, 0.99); m.Value != 10 || m.Low != 0 || m.High != 0 {
		t.Errorf("99th percentile of 1 to 10 is %+v; a spread would be that of other values", m)
	}
	if m := median("x", []float64{3}); m.Value != 3 {
		t.Errorf("median of one value is %+v", m)
	}
	if m := median("x", nil); m.Missing == "" {
		t.Errorf("median of nothing is %+v", m)
	}
}

func TestLimit(t *testing.T) {
	for _, c := range []struct {
		limit *limit
		x     float64
		met   bool
	}{
		{atMost(1.5), 1.5, true},
		{atMost(1.5), 1.51, false},
		{atMost(0), 0, true},
		{atMost(0), 1, false},
		{atLeast(0.8), 0.8, true},
		{atLeast(0.8), 0.79, false},
	} {
		if c.limit.met(c.x) != c.met {
			t.Errorf("%v is met by %v: want %v", *c.limit, c.x, c.met)
		}
	}
}

// A missed budget, alone or against a peer, and a row that was not measured make the run fail.
// A missing peer does not.
func TestVerdict(t *testing.T) {
	ours := measure{Name: "leasectl", Value: 3}
	for _, c := range []struct {
		name   string
		result result
		fails  bool
		in     []string // of the table
	}{
		{"no budget", result{Ours: ours, Peers: []measure{{Name: "p", Value: 1}}}, false, []string{"3.00 ×"}},
		{"met", result{Ours: ours, Peers: []measure{{Name: "p", Value: 2, Limit: atMost(1.5)}}}, false, []string{"1.50 ×", "≤ 1.50 ×", "yes"}},
		{"missed", result{Ours: ours, Peers: []measure{{Name: "p", Value: 1, Limit: atMost(1.5)}}}, true, []string{"NO"}},
		{"one of two missed", result{Ours: ours, Limit: atMost(9), Peers: []measure{{Name: "p", Value: 1, Limit: atMost(1.5)}}}, true, []string{"yes", "NO"}},
		{"the first of two missed", result{Ours: ours, Limit: atMost(2), Peers: []measure{{Name: "p", Value: 3, Limit: atMost(1.5)}}}, true, []string{"yes", "NO"}},
		{"missed as is known", result{Ours: ours, Peers: []measure{{Name: "p", Value: 1, Limit: atMost(1.5).missedTo(3)}}}, false, []string{"≤ 1.50 ×", "no, as is known"}},
		{"missed by more than is known", result{Ours: ours, Peers: []measure{{Name: "p", Value: 1, Limit: atMost(1.5).missedTo(2.9)}}}, true, []string{"NO"}},
		{"too few, as is known", result{Ours: ours, Limit: atLeast(4).missedTo(3)}, false, []string{"no, as is known"}},
		{"fewer than is known", result{Ours: ours, Limit: atLeast(4).missedTo(3.1)}, true, []string{"NO"}},
		{"alone missed", result{Ours: ours, Limit: atMost(2)}, true, []string{"≤ 2.00", "NO"}},
		{"peer missing", result{Ours: ours, Peers: []measure{missing("p", "install it")}}, false, []string{"missing: install it"}},
		{"not measured", result{Error: "no\nserver"}, true, []string{"not measured: no; server", "no"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &report{Results: []result{c.result}}
			r.Results[0].judge()
			if err := r.verdict(); (err != nil) != c.fails {
				t.Errorf("verdict is %v", err)
			}
			var out strings.Builder
			r.print(&out)
			for _, want := range c.in {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the table lacks %q:\n%s", want, &out)
				}
			}
		})
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		unit unit
		x    float64
		want string
	}{
		{inSeconds, 0.00217, "2.17 ms"},
		{inSeconds, 0.0000936, "93.6 µs"},
		{inSeconds, 1.5, "1.50 s"},
		{inSeconds, 130, "2m10s"},
		{inBytes, 512, "512 B"},
		{inBytes, 21.1 * 1024, "21.1 KiB"},
		{inBytes, 8.72 * 1024 * 1024, "8.72 MiB"},
		{perSecond, 11969, "11969/s"},
		{percent, 0.00234, "0.00234 %"},
		{factor, 1.2, "1.20 ×"},
		{number, 0, "0"},
	} {
		if got := c.unit.format(c.x); got != c.want {
			t.Errorf("%v of unit %q is %q, want %q", c.x, c.unit, got, c.want)
		}
	}
}

func TestChoose(t *testing.T) {
	for name, want := range map[string]int{"": len(rows), "exec": 1, "handoff": 1, "pairs": 11, "waiters": 2, "million": 1, "pairs-1": 1, "page": 1, "herd": 2} {
		if got, err := choose(name); err != nil || len(got) != want {
			t.Errorf("row %q: %d rows, %v; want %d", name, len(got), err, want)
		}
	}
	if _, err := choose("speed"); err == nil || !strings.Contains(err.Error(), "handoff") {
		t.Errorf("row speed: %v; want the names that there are", err)
	}
}

// Peers that are not installed are named with their packages.
func TestLacks(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if got := lacks("etcd", "etcdctl"); got != "install etcd-server etcd-client" {
		t.Errorf("without any program: %q", got)
	}
	for program, pkg := range packages {
		if pkg == "" {
			t.Errorf("%s has no package", program)
		}
	}
	if got := lacks(); got != "" {
		t.Errorf("without a need: %q", got)
	}
}
