package holder

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/holder/dial"
)

// hook is a report that calls on for each debug line, before it goes on.
type hook struct {
	*report
	on func(format string)
}

func (h hook) Debugf(format string, args ...any) {
	h.on(format)
	h.report.Debugf(format, args...)
}

// A newcomer renews the lease that lingers. If a signal ends the newcomer right then, it has the
// lease all the same, and gives it back: the renewed lease would last for its whole TTL.
func TestSignalAfterTheRenewalOfALingeringRound(t *testing.T) {
	w := newWorld(t)
	request := Request{Type: "t", Count: 1, Shared: &Shared{Name: "s", Linger: time.Hour}, Handle: w.handle("handle")}
	l, err := w.Acquire(within(t), request)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Release(within(t)); err != nil || !w.report.said("lingers") {
		t.Fatalf("the lease does not linger: %v", err)
	}
	ctx, signal := context.WithCancel(within(t))
	listening := make(chan struct{})
	close(listening)
	h := New(Options{
		StateDir: w.dir, Owner: "job-1", Listening: listening, Proxy: dial.Options{URL: w.proxy.URL, Version: "test"},
		Report: hook{w.report, func(format string) {
			if strings.HasPrefix(format, "renewed") {
				signal()
			}
		}},
	})
	defer h.Close()
	request.Shared = &Shared{Name: "s"}
	if l, err := h.Acquire(ctx, request); err == nil {
		_, err := l.Release(ctx)
		if err != nil {
			t.Error(err)
		}
	}
	if ctx.Err() == nil {
		t.Error("no lease was renewed")
	}
	if got := w.proxy.released(); !slices.Equal(got, []string{"lease1"}) {
		t.Errorf("released %q, want the renewed lease", got)
	}
}
