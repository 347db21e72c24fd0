package page_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page"
)

// limit is the part of the page of p about its limit.
func limit(v page.View, p pool.PoolStatus) string {
	p.Type = "t"
	return text(v.Pool(page.Pool{PoolStatus: p}, pool.Part{}, page.Day{}), "limit")
}

// The page of a pool that adapts says why its limit moved last, and by whose report.
func TestLimitThatMoves(t *testing.T) {
	p := pool.PoolStatus{Adapt: true, Capacity: 32, Limit: 20, Tally: []pool.Tally{{Limit: 22, Throttled: 2}}}
	if got := limit(view(false), p); !strings.Contains(got, "20 of 32") || !strings.Contains(got, ">never<") || strings.Contains(got, "Wall") {
		t.Errorf("a limit that never moved:\n%s", got)
	}
	p.Wall, p.Moved = 22, pool.Move{At: 40 * time.Second, From: 22, To: 20, Owner: "https://ci.example/job/1", Detail: "<slow down>"}
	got := limit(view(false), p)
	for _, want := range []string{
		"Wall</dt><dd>22<", "from 22 to 20, <time", ">20 s ago<", "leases were throttled: <bdi>&lt;slow down&gt;</bdi>",
		`href="https://ci.example/job/1"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, "<table") {
		t.Errorf("it shows reports, which the limit follows by itself:\n%s", got)
	}
	p.Moved.From = 18
	if got := limit(view(false), p); !strings.Contains(got, "as many leases as the limit ended ok") {
		t.Errorf("a rise:\n%s", got)
	}
	now, later := view(true), view(true)
	later.Now += time.Minute
	if limit(now, p) != limit(later, p) {
		t.Error("the part changes with the time alone")
	}
}

// The page of any other pool says at which limit how many leases were ok, and how many
// throttled.
func TestReportsByLimit(t *testing.T) {
	p := pool.PoolStatus{Capacity: 32, Limit: 32}
	if got := limit(view(false), p); got != "" {
		t.Errorf("without reports:\n%s", got)
	}
	p.Tally = []pool.Tally{{Limit: 20, OK: 7}, {Limit: 32, OK: 5, Throttled: 2}}
	if got := cells(limit(view(false), p)); got != "20 7 0 ; 32 5 2 ;" {
		t.Errorf("%s", got)
	}
}
