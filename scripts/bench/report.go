package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// report is all results of a run.
type report struct {
	Began   time.Time `json:"began"`
	Took    string    `json:"took"`
	CPUs    int       `json:"cpus"`
	System  string    `json:"system"`
	Load    string    `json:"load,omitempty"` // of the machine at the beginning; see proc_loadavg(5)
	Results []result  `json:"results"`
}

func newReport() *report {
	r := &report{Began: time.Now(), CPUs: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		r.Load, _, _ = strings.Cut(string(load), " ")
	}
	return r
}

// print writes the table: a line for each number of leasectl with its first peer, and a line
// for each further peer. Ratios are leasectl ÷ peer.
func (r *report) print(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }
	line("row", "what", "leasectl", "peer", "", "ratio", "budget", "met")
	last := ""
	for _, res := range r.Results {
		row := res.Row
		if row == last {
			row = ""
		}
		last = res.Row
		if res.Error != "" {
			line(row, res.What, "not measured: "+strings.ReplaceAll(res.Error, "\n", "; "), "", "", "", "", "no")
			continue
		}
		ours := res.Unit.measured(res.Ours)
		if res.Limit != nil || len(res.Peers) == 0 {
			line(row, res.What, ours, "", "", "", bound(res.Limit, res.Unit.format), word(res.Limit, res.Ours.Met, res.Ours.Value))
			row, res.What, ours = "", "", ""
		}
		for _, p := range res.Peers {
			ratio := ""
			if p.Ratio != 0 {
				ratio = times(p.Ratio)
			}
			line(row, res.What, ours, p.Name, res.Unit.measured(p), ratio, bound(p.Limit, times), word(p.Limit, p.Met, p.Ratio))
			row, res.What, ours = "", "", ""
		}
	}
	t.Flush()
	fmt.Fprintf(out, "\nMedians; in brackets the middle eight tenths of the values. Ratio: leasectl ÷ peer.\n%d CPUs, %s, load %s at the beginning; took %s.\n",
		r.CPUs, r.System, r.Load, r.Took)
}

func times(x float64) string { return digits(x) + " ×" }

func bound(l *limit, format func(float64) string) string {
	if l == nil {
		return ""
	}
	return l.Is + " " + format(l.Bound)
}

// word says whether x met l.
func word(l *limit, met *bool, x float64) string {
	switch {
	case met == nil:
		return ""
	case *met:
		return "yes"
	case l.worse(x):
		return "NO"
	}
	return "no, as is known"
}

// save writes the report as JSON.
func (r *report) save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// verdict is an error if a budget was missed by more than is known or a row was not measured.
func (r *report) verdict() error {
	for _, res := range r.Results {
		if res.Error != "" || res.Worse {
			return errMissed
		}
	}
	return nil
}
