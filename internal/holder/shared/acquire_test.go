package shared

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/holdertest"
	"github.com/leasectl/leasectl/internal/holder/usage"
	"github.com/leasectl/leasectl/leaseapi"
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
	request := holder.Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: w.Handle("handle")}
	l, err := Acquire(holdertest.Within(t), w.Holder, Options{Name: "s", Linger: time.Hour}, request)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Release(holdertest.Within(t)); err != nil || !w.report.Said("lingers") {
		t.Fatalf("the lease does not linger: %v", err)
	}
	ctx, signal := context.WithCancel(holdertest.Within(t))
	h := w.reportingTo(hook{w.report, func(format string) {
		if strings.HasPrefix(format, "renewed") {
			signal()
		}
	}})
	if l, err := Acquire(ctx, h, Options{Name: "s"}, request); err == nil {
		_, err := l.Release(ctx)
		if err != nil {
			t.Error(err)
		}
	}
	if ctx.Err() == nil {
		t.Error("no lease was renewed")
	}
	if got := w.Proxy.Released(); !slices.Equal(got, []string{"lease1"}) {
		t.Errorf("released %q, want the renewed lease", got)
	}
}

// The grant of a round whose answer is old is asked for again, and the record then has the lease.
func TestAgedGrantOfARound(t *testing.T) {
	w := newWorld(t)
	w.Proxy.RenewEvery = time.Nanosecond // each answer is late already
	l, err := Acquire(holdertest.Within(t), w.Holder, Options{Name: "s"}, holder.Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, WaitTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if asked := w.Proxy.Asked(); asked != 2 {
		t.Errorf("asked %d times", asked)
	}
	if entries, _ := filepath.Glob(filepath.Join(w.Dir, "intents", "*")); len(entries) > 0 {
		t.Errorf("the journal has %v, and the record has the lease", entries)
	}
	if _, err := l.Release(holdertest.Within(t)); err != nil || !slices.Equal(w.Proxy.Released(), l.Names()) {
		t.Errorf("released %v: %v", w.Proxy.Released(), err)
	}
}

// Nobody shares a lease that one user wants for itself, whatever a command line lets through.
func TestSharedAskIsOfAll(t *testing.T) {
	w := newWorld(t)
	for want, a := range map[string]leaseapi.Ask{
		"priority does":    {Type: "t", Priority: 1},
		"key does":         {Type: "t", Key: "k", KeyMode: leaseapi.KeyWrite},
		"coalesce does":    {Type: "t", Key: "k", Coalesce: leaseapi.CoalesceJoin, Variant: "v"},
		"also does not go": {Type: "t", Also: []leaseapi.Also{{Type: "u"}}},
		"name does not go": {Type: "t", Name: "n"},
	} {
		_, err := Acquire(holdertest.Within(t), w.Holder, Options{Name: "s"}, holder.Request{Ask: a, Handle: w.Handle("handle")})
		if !errors.Is(err, usage.Err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}
