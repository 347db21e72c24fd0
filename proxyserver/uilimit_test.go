package proxyserver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/pool"
)

// Cuts and rises of a limit are events, with the reason and the owner of the report. The page
// of the pool shows the last of them.
func TestLimitOnThePage(t *testing.T) {
	adapts := quota(2)
	adapts.Adapt = &pool.Adapt{}
	fixed := pool.Config{Type: "fixed", Names: []string{"f"}}
	p := start(t, Options{Pools: []pool.Config{adapts, fixed}})
	b := &browser{peer: p}
	serial := 0
	end := func(typ, outcome, detail string) {
		t.Helper()
		serial++
		got := p.granted(fmt.Sprintf("type=%s&request_id=r%d&owner=job-%d", typ, serial, serial))
		p.release(fmt.Sprintf(`{"leases":[{"name":%q,"generation":%d}],"report":{"request_id":"r%d","outcome":%q,"detail":%q}}`,
			got.Names[0], got.Leases[0].Generation, serial, outcome, detail))
	}
	if text := b.page("/ui/pools/q"); !strings.Contains(text, "2 of 2") || !strings.Contains(text, ">never<") {
		t.Errorf("before any report:\n%s", text)
	}
	end("q", "throttled", "slow down")
	if text := b.page("/ui/pools/q"); !strings.Contains(text, "from 2 to 1, <time") || !strings.Contains(text, ">job-1<") || !strings.Contains(text, "<bdi>slow down</bdi>") {
		t.Errorf("after a cut:\n%s", text)
	}
	for range 4 { // as many as the rise after a cut needs
		end("q", "ok", "")
	}
	if text := b.page("/ui/pools/q"); !strings.Contains(text, "from 1 to 2, <time") || !strings.Contains(text, ">job-5<") {
		t.Errorf("after a rise:\n%s", text)
	}
	for what, want := range map[string][]string{
		"limit cut":    {"from 2 to 1: leases were throttled: slow down", ">job-1<"},
		"limit raised": {"from 1 to 2: as many leases as the limit ended ok", ">job-5<"},
	} {
		text := b.page("/ui/events?what=" + strings.ReplaceAll(what, " ", "+"))
		if strings.Count(text, `<span class="what">`+what+`</span>`) != 1 {
			t.Errorf("%s is not one event:\n%s", what, text)
		}
		for _, w := range append(want, "<option selected>"+what+"</option>") {
			if !strings.Contains(text, w) {
				t.Errorf("%s lacks %s:\n%s", what, w, text)
			}
		}
	}
	end("fixed", "throttled", "")
	if text := b.page("/ui/pools/fixed"); !strings.Contains(text, "by the limit of that time") || !strings.Contains(text, `data-label="Throttled"><div>1<`) {
		t.Errorf("the pool with a fixed limit:\n%s", text)
	}
	if text := b.page("/ui/events?type=fixed"); strings.Contains(text, `<span class="what">`) {
		t.Errorf("a fixed limit moved:\n%s", text)
	}
}

// A cut is a step in the chart of the pool.
func TestCutInTheChart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		adapts := quota(2)
		adapts.Adapt = &pool.Adapt{}
		p := start(t, Options{Pools: []pool.Config{adapts}})
		time.Sleep(100 * time.Second)
		p.granted("type=q&request_id=r&ttl=1h")
		if got := p.do("POST", "/lease/report", `{"request_id":"r","outcome":"throttled"}`); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if text := (&browser{peer: p}).page("/ui/pools/q"); !strings.Contains(text, `class="line" d="M56 8H57V54H60"`) {
			t.Errorf("%s", text)
		}
	})
}
