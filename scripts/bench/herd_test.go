package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The numbers in docs/limits.md: a square wave without a pace, much less of a wave with jitter,
// and an even stream with a pace.
func TestHerds(t *testing.T) {
	for _, h := range herds {
		jobs, err := h.simulate()
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) != herdJobs {
			t.Fatalf("%s: %d jobs", h.name, len(jobs))
		}
		for _, j := range jobs {
			if j.comes > j.asks || j.asks > j.starts {
				t.Fatalf("%s: a job comes, asks and starts at %v", h.name, j)
			}
		}
		least, most := 1.0, 1.2
		switch {
		case h.jitter > 0:
			least, most = 3.5, 5.5
		case h.pace == 0:
			least, most = 15.5, 16.5
		}
		if p := peak(starts(jobs), time.Minute); p < least || p > most {
			t.Errorf("%s: peak is %.2f times the mean, want %v to %v", h.name, p, least, most)
		}
		if rate := steadyRate(starts(jobs), time.Minute); rate < 2.475 || rate > 2.525 {
			t.Errorf("%s: %.3f starts per minute, want capacity / hold, which is 2.5", h.name, rate)
		}
	}
}

func TestPeak(t *testing.T) {
	var even, wave []time.Duration
	for i := range 100 {
		even = append(even, time.Duration(i)*10*time.Second)
		wave = append(wave, time.Duration(i/50)*10*time.Minute)
	}
	if p := peak(even, time.Minute); p != 1 {
		t.Errorf("an even stream has a peak of %v", p)
	}
	if p := peak(wave, time.Minute); p < 5 {
		t.Errorf("two waves in ten minutes have a peak of %v", p)
	}
}

func TestWaits(t *testing.T) {
	mean, longest := waits([]job{{0, 1, 2}, {10, 12, 16}})
	if mean != 4 || longest != 6 {
		t.Errorf("waits are %v on average and %v at most, want 4 and 6 since the jobs came", mean, longest)
	}
}

// Starts are read from the log of the server.
func TestReadStarts(t *testing.T) {
	begin := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	log := filepath.Join(t.TempDir(), "log")
	write := func(text string) {
		if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const (
		one = "time=2030-01-02T03:04:05.250Z level=INFO msg=granted owner=job-1 type=install names=[install-0]\n"
		two = "time=2030-01-02T03:04:06.000Z level=INFO msg=released owner=job-1 type=install\n" +
			"time=2030-01-02T04:04:07.000+01:00 level=INFO msg=granted owner=job-0 type=install names=[install-0]\n"
	)
	write("leasectl: listening on http://127.0.0.1:1\n" + one + two)
	jobs := make([]job, 2)
	if err := readStarts(log, begin, jobs); err != nil || jobs[0].starts != 2*time.Second || jobs[1].starts != 250*time.Millisecond {
		t.Errorf("jobs are %v, %v", jobs, err)
	}
	write(one)
	if err := readStarts(log, begin, make([]job, 2)); err == nil {
		t.Error("a job that was granted nothing went unnoticed")
	}
	write(strings.ReplaceAll(one, "job-1", "job-7"))
	if err := readStarts(log, begin, make([]job, 2)); err == nil {
		t.Error("a grant to nobody went unnoticed")
	}
}

// The picture in docs/limits.md shows what the pools do now.
func TestPicture(t *testing.T) {
	svg, err := picture()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile("../../docs/herd.svg")
	if err != nil {
		t.Fatal(err)
	}
	if svg != string(kept) {
		t.Error("docs/herd.svg is out of date: run make herd-picture")
	}
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
	}
	for _, h := range herds {
		if !strings.Contains(svg, ">"+h.name+"<") {
			t.Errorf("the picture does not show %s", h.name)
		}
	}
}
