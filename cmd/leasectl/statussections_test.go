package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/cmd/leasectl/console"
	"github.com/leasectl/leasectl/leaseapi"
)

// crowded is an overview of 300 pools, and of 40 waiters and 2 holders of one of them, with long owners.
func crowded() overview {
	var o overview
	for i := range 300 {
		o.Pools = append(o.Pools, leaseapi.Pool{Type: fmt.Sprintf("pool-%03d", i), Capacity: 2})
	}
	p := &o.Pools[250]
	owner := func(of string, i int) string {
		return fmt.Sprintf("%s-%02d-%s-end-%02d", of, i, strings.Repeat("o", 200), i)
	}
	for i := range 2 {
		p.Leases = append(p.Leases, leaseapi.PoolLease{Lease: leaseapi.Lease{Name: fmt.Sprintf("name-%d", i), Generation: 7}, Owner: owner("holder", i)})
	}
	for i := range 40 {
		p.Waiters = append(p.Waiters, leaseapi.Waiter{Place: i + 1, Count: 1, Reason: leaseapi.WaitReason{Kind: leaseapi.WaitFull}, Owner: owner("waiter", i), RequestID: fmt.Sprintf("REQUEST-%018d", i)})
	}
	p.InUse, p.Waiting, p.Paused = 2, 40, strings.Repeat("throttled 日本 ", 30)
	return o
}

// The table of status fits into any terminal, cuts first what nobody copies, and says how much more there is.
func TestStatusFits(t *testing.T) {
	o := crowded()
	o.Leader = &leaseapi.Leader{URL: "http://a"}
	for _, r := range []room{{80, 24}, {100, 30}, {300, 60}, {20, 3}, {1, 1}} {
		text := o.text(time.Time{}, r, false)
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(line) - 1; r.width > 1 && n > r.width {
				t.Errorf("%v: %d columns: %s", r, n, line)
			}
		}
		if n := strings.Count(text, "\n"); n > max(3, r.height) || n < min(r.height, 24)/2 {
			t.Errorf("%v: %d lines", r, n)
		}
		if r.width < 80 {
			continue
		}
		for _, want := range []string{"\npool-250 ", "holder-00-", "-end-01", "waiter", " more", "name-0"} {
			if !strings.Contains(text, want) {
				t.Errorf("%v: no %q in\n%s", r, want, text)
			}
		}
		if whole := strings.Contains(text, fmt.Sprintf("REQUEST-%018d", 0)); whole != (r.width >= 100) {
			t.Errorf("%v: the request is whole: %v\n%s", r, whole, text)
		}
	}
	file, short := o.text(time.Time{}, room{}, false), o.text(time.Time{}, room{}, true)
	if strings.Contains(file, "…") || strings.Count(file, "\n") < 340 {
		t.Errorf("a file has not all:\n%s", file)
	}
	if strings.Contains(short, "holder") || !strings.Contains(short, "pool-299") || !strings.Contains(short, "PAUSED") {
		t.Errorf("--short:\n%s", short)
	}
}

// What a terminal shows is cut to its size at that moment; a pipe gets all.
func TestStatusOnATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=40")
	owner := strings.Repeat("o", 200)
	w.Run(0, "acquire", "--type", "install", "--count", "30", "--handle", "h", "--owner", owner)
	if text := w.Run(0, "status"); strings.Count(text, owner) != 30 {
		t.Errorf("a pipe got\n%s", text)
	}
	s := w.onTerminal("sh", "-c", `read line; exec "$0" status --watch`, w.Program)
	if err := pty.Setsize(s.keys, &pty.Winsize{Cols: 60, Rows: 12}); err != nil {
		t.Fatal(err)
	}
	s.keys.WriteString("\n")
	s.awaits("more")
	s.interrupt()
	_, screen, _ := strings.Cut(s.said.String(), console.HomeAndClear)
	screen, _, _ = strings.Cut(screen, console.HomeAndClear)
	screen, _, _ = strings.Cut(screen, "^C")
	if lines := strings.Count(screen, "\n"); lines > 11 || strings.Contains(screen, owner) || !strings.Contains(screen, "…") {
		t.Errorf("%d lines:\n%s", lines, screen)
	}
}
