package ui

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/past"
	"github.com/leasectl/leasectl/leaseapi"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 59 * time.Second: "59 s", 61 * time.Second: "1 min 1 s", 120 * time.Second: "2 min", 601 * time.Second: "10 min",
		59*time.Minute + 59*time.Second: "59 min", time.Hour: "1 h 0 min", 25 * time.Hour: "1 d 1 h",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// The URL of a job finds the job, whatever query or fragment the browser shows with it. A query
// that names the build finds no other build.
func TestMatchesURL(t *testing.T) {
	for _, tt := range []struct {
		text, owner string
		want        bool
	}{
		{"https://ci/job/12", "https://ci/job/12", true},
		{"https://ci/job/12?tab=log#L7", "https://ci/job/12#step", true},
		{"https://ci/job/12/log?x=y", "https://ci/job/12", true},
		{"https://ci/job?tab=log", "https://ci/job/12", true},
		{"https://ci/build?id=12", "https://ci/build?id=12", true},
		{"https://CI/build/?ID=12&tab=log#L7", "job https://ci/build/?id=12#step by you", true},
		{"https://ci/build?tab=log&id=12", "https://ci/build?id=12&type=a", true},
		{"https://ci/build?id=1", "https://ci/build?id=12", false},
		{"https://ci/build?id=13", "https://ci/build?id=12", false},
		{"https://ci/build/?id=13", "https://ci/build/?id=12", false},
		{"https://ci/build", "https://ci/build?id=12", true},
		{"https://ci/build?tab=log", "https://ci/build?id=12", true},
	} {
		if got := matching(tt.text)(tt.owner, "", ""); got != tt.want {
			t.Errorf("%s and the owner %s: %v, want %v", tt.text, tt.owner, got, tt.want)
		}
	}
}

// noon is a view at a minute past noon.
func noon(live bool) view {
	return view{now: time.Minute, zero: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), live: live}
}

// text makes the part of a page with that id.
func text(t *testing.T, p page, id string) string {
	t.Helper()
	if err := p.fill(); err != nil {
		t.Fatal(err)
	}
	for _, part := range p.Parts {
		if part.ID == id {
			return string(part.HTML)
		}
	}
	t.Fatalf("the page has no part %s", id)
	return ""
}

// ofPool makes the part of the page of a pool with that id.
func ofPool(t *testing.T, v view, p pool.PoolStatus, id string) string {
	t.Helper()
	return text(t, poolPage(poolView{view: v, PoolStatus: p}, pool.Part{}, past.Day{}), id)
}

// A pool is in one of six states, which the page names.
func TestStates(t *testing.T) {
	for _, tt := range []struct {
		want, next string
		p          pool.PoolStatus
	}{
		{"free", "at once", pool.PoolStatus{Capacity: 2, Limit: 2, InUse: 1}},
		{"full", "when one is free", pool.PoolStatus{Capacity: 2, Limit: 2, InUse: 2, NextGrantIn: time.Second}},
		{"full", "when 20 more are free", pool.PoolStatus{Capacity: 100, Limit: 100, InUse: 60, Lacks: 20, Waiting: 1, Counted: true}},
		{"full", "when one more is free", pool.PoolStatus{Capacity: 3, Limit: 3, InUse: 2, Lacks: 1, Waiting: 1, NextGrantIn: time.Second}},
		{"full", "when one is free", pool.PoolStatus{Capacity: 2, Limit: 2, InUse: 2, Lacks: 1, Waiting: 1}},
		{"full", "when 2 more are free", pool.PoolStatus{Capacity: 2, Limit: 2, InUse: 2, Lacks: 2, Waiting: 1}},
		{"paced", "in 1 s", pool.PoolStatus{Capacity: 2, Limit: 2, InUse: 1, NextGrantIn: time.Second}},
		{"paused", "when resumed", pool.PoolStatus{Capacity: 2, Limit: 2, InUse: 2, Paused: &pool.Pause{Reason: "x"}}},
		{"paused", "when resumed", pool.PoolStatus{Capacity: 2, Limit: 2, InUse: 1, Lacks: 1, Waiting: 1, Paused: &pool.Pause{Reason: "x"}}},
		{"blocked", "when what they wait for is free", pool.PoolStatus{Capacity: 3, Limit: 3, InUse: 2, Waiting: 1}},
		{"draining", "never", pool.PoolStatus{Capacity: 0, InUse: 2}},
	} {
		tt.p.Type = "t"
		got := ofPool(t, noon(false), tt.p, "state")
		for _, part := range []string{`<span class="state ` + tt.want + `">` + tt.want + `</span>`, tt.next} {
			if !strings.Contains(got, part) {
				t.Errorf("%s:\n%s", part, got)
			}
		}
	}
}

// A lease that is held for longer than any other lately stands out.
func TestOverdue(t *testing.T) {
	p := pool.PoolStatus{Type: "t", Capacity: 2, Limit: 2, InUse: 2, LongestHold: 30 * time.Second, Leases: []pool.Lease{
		{Name: "late", Granted: 29 * time.Second}, {Name: "young", Granted: 31 * time.Second},
	}}
	got := ofPool(t, noon(false), p, "held")
	if strings.Count(got, "overdue</strong>") != 1 || strings.Index(got, `class="overdue"`) > strings.Index(got, "late") {
		t.Errorf("%s", got)
	}
}

// A name that was taken out while it is held is marked.
func TestDrainingName(t *testing.T) {
	p := pool.PoolStatus{Type: "t", Capacity: 1, Limit: 1, InUse: 2, Leases: []pool.Lease{{Name: "out", Draining: true}, {Name: "in"}}}
	got := ofPool(t, noon(false), p, "held")
	if strings.Count(got, "draining</strong>") != 1 || strings.Index(got, "draining</strong>") > strings.Index(got, ">in<") {
		t.Errorf("%s", got)
	}
}

// A part of a live page is the same as long as nothing happens, however late it is.
func TestLivePartsStayTheSame(t *testing.T) {
	p := pool.PoolStatus{
		Type: "t", Capacity: 2, Limit: 2, InUse: 1, Waiting: 1, OldestWaiting: 30 * time.Second, NextGrantIn: 50 * time.Second,
		Leases:  []pool.Lease{{Name: "n", RequestID: "r", Granted: 10 * time.Second, Expires: time.Hour, TTL: time.Hour}},
		Waiters: []pool.WaiterStatus{{ID: "w", Place: 1, Arrived: 30 * time.Second, Estimate: time.Minute, EstimateMax: 2 * time.Minute}},
	}
	before := make(map[string]string)
	for _, id := range []string{"state", "limit", "queue", "held"} {
		before[id] = ofPool(t, noon(true), p, id)
	}
	later := noon(true)
	later.now += 20 * time.Second
	p.OldestWaiting += 20 * time.Second
	p.NextGrantIn -= 20 * time.Second
	p.Waiters[0].Estimate -= 20 * time.Second
	p.Waiters[0].EstimateMax -= 20 * time.Second
	for id, want := range before {
		if got := ofPool(t, later, p, id); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", id, got, want)
		}
	}
}

// Charts show the shortest of an hour, six hours and a day that has all minutes. A step is
// drawn once.
func TestCharts(t *testing.T) {
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	chart := func(minutes int) string {
		d := past.Day{Begin: begin, Started: begin, Minutes: make([]past.Minute, minutes)}
		for i := range d.Minutes {
			d.Minutes[i] = past.Minute{InUse: 3, Limit: 4}
		}
		d.Minutes[minutes-1].Starts = 7
		return text(t, poolPage(poolView{view: noon(false), PoolStatus: pool.PoolStatus{Type: "t", Capacity: 4}}, pool.Part{}, d), "charts")
	}
	for minutes, want := range map[int]string{1: "The last hour", 60: "The last hour", 61: "The last six hours", 361: "The last day", 1440: "The last day"} {
		got := chart(minutes)
		if !strings.Contains(got, want) || !strings.Contains(got, "Starts per minute: now 7, at most 7") || !strings.Contains(got, "now 3, at most 3, limit 4") {
			t.Errorf("%d minutes:\n%s", minutes, got)
		}
		if begins := strings.Contains(got, "The charts begin at"); begins != (minutes != 60 && minutes != 1440) {
			t.Errorf("%d minutes: says that it begins: %t", minutes, begins)
		}
	}
	if got := chart(60); !strings.Contains(got, `d="M0 100V31H60V100Z"`) || !strings.Contains(got, `d="M0 100V100H59V8H60V100Z"`) {
		t.Errorf("%s", got)
	}
}

// The page asks no other host for anything.
func TestNoOtherHost(t *testing.T) {
	templates()
	for name, a := range files.assets {
		text := string(a.text)
		if name == "icon.svg" {
			text = strings.Replace(text, `xmlns="http://www.w3.org/2000/svg"`, "", 1)
		}
		if strings.Contains(text, "http:") || strings.Contains(text, "https:") || strings.Contains(text, "//") && name == "style.css" || text == "" {
			t.Errorf("%s may ask another host", name)
		}
		if a.contentType == "" {
			t.Errorf("%s has no type", name)
		}
	}
	if len(files.assets) != 3 {
		t.Errorf("%d assets", len(files.assets))
	}
}

// A message has a link to a page, or to a URL of http, and to nothing else.
func TestMessageLinks(t *testing.T) {
	for href, want := range map[string]string{
		"/": `href="/"`, "https://other.example/ui/pools/q": `href="https://other.example/ui/pools/q"`, "javascript:x": "", "//evil.example/": "", "": "",
	} {
		got := text(t, message(200, "t", "m", href, "onwards"), "text")
		if strings.Contains(got, "<a ") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s gives %s", href, got)
		}
	}
}

// Units, keys and their holders stand in the tables of a pool that has them, and
// the bar shows a limit below the capacity.
func TestUnitsAndKeys(t *testing.T) {
	p := pool.PoolStatus{
		Type: "mem", Counted: true, Unit: "1Mi", Capacity: 8192, Limit: 6000, InUse: 928, LockDelayed: 512, LockedFor: 14 * time.Second, Waiting: 1,
		Leases:  []pool.Lease{{Name: "mem-1", Owner: "holder<", Units: 928, Ask: pool.Ask{Key: "obj<1", Overcommit: true}}},
		Waiters: []pool.WaiterStatus{{ID: "w", Place: 1, Units: 512, Key: "obj<1", Reason: leaseapi.WaitReason{Kind: leaseapi.WaitKey, By: "holder<"}}},
	}
	if got := ofPool(t, noon(false), p, "queue"); !strings.Contains(got, ">Units</th>") || !strings.Contains(got, "<bdi>obj&lt;1</bdi>") ||
		!strings.Contains(got, `key held by <bdi class="owner">holder&lt;</bdi>`) || !strings.Contains(got, ">512<") {
		t.Errorf("%s", got)
	}
	if got := ofPool(t, noon(false), p, "held"); !strings.Contains(got, ">928<") || !strings.Contains(got, "<bdi>obj&lt;1</bdi>") || !strings.Contains(got, "overcommit") {
		t.Errorf("%s", got)
	}
	if got := ofPool(t, noon(false), p, "state"); !strings.Contains(got, "<b>928</b> of 6000") || !strings.Contains(got, "units of 1Mi") ||
		!strings.Contains(got, "limit 6000, capacity 8192") || !strings.Contains(got, "512 with a lock delay, over <time") || !strings.Contains(got, ">in 14 s</time>") || !strings.Contains(got, `class="limit" x="73.2"`) {
		t.Errorf("%s", got)
	}
}

// The page of a pool that adapts says why its limit moved last, and by whose report.
func TestLimitThatMoves(t *testing.T) {
	p := pool.PoolStatus{Type: "t", Adapt: true, Capacity: 32, Limit: 20, Tally: []pool.Tally{{Limit: 22, Throttled: 2}}}
	if got := ofPool(t, noon(false), p, "limit"); !strings.Contains(got, "20 of 32") || !strings.Contains(got, ">never<") || strings.Contains(got, "Wall") {
		t.Errorf("a limit that never moved:\n%s", got)
	}
	p.Wall, p.Moved = 22, pool.Move{At: 40 * time.Second, From: 22, To: 20, Owner: "https://ci.example/job/1", Detail: "<slow down>"}
	got := ofPool(t, noon(false), p, "limit")
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
	if got := ofPool(t, noon(false), p, "limit"); !strings.Contains(got, "as many leases as the limit ended ok") {
		t.Errorf("a rise:\n%s", got)
	}
	later := noon(true)
	later.now += time.Minute
	if ofPool(t, noon(true), p, "limit") != ofPool(t, later, p, "limit") {
		t.Error("the part changes with the time alone")
	}
}

// The page of any other pool says at which limit how many leases were ok, and how many
// throttled.
func TestReportsByLimit(t *testing.T) {
	p := pool.PoolStatus{Type: "t", Capacity: 32, Limit: 32}
	if got := ofPool(t, noon(false), p, "limit"); got != "" {
		t.Errorf("without reports:\n%s", got)
	}
	p.Tally = []pool.Tally{{Limit: 20, OK: 7}, {Limit: 32, OK: 5, Throttled: 2}}
	if got := cells(ofPool(t, noon(false), p, "limit")); got != "20 7 0 ; 32 5 2 ;" {
		t.Errorf("%s", got)
	}
}

// cells are the texts in the body of a table without markup in its cells, by row.
func cells(html string) string {
	_, body, _ := strings.Cut(html, "<tbody")
	body = strings.ReplaceAll(body, "</tr>", ";")
	return strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>|^[^>]*>`).ReplaceAllString(body, " ")), " ")
}

// The page shows what leases asked for, and below it what commands used, in the pool's unit.
func TestPeaks(t *testing.T) {
	asked := leaseapi.Quantiles{P50: 20, P95: 30, Max: 40}
	used := leaseapi.Quantiles{P50: 10 << 20, P95: 20<<20 + 1, Max: 50 << 20}
	for unit, want := range map[string]string{
		"1Mi": "asked 20 30 40 ; used 10 21 50 ;", "2Mi": "asked 20 30 40 ; used 5 11 25 ;",
	} {
		p := poolView{view: noon(false), PoolStatus: pool.PoolStatus{Type: "mem", Counted: true, Unit: unit}, Peaks: &leaseapi.Peaks{Leases: 3, Asked: asked, Used: used}}
		if got := cells(text(t, poolPage(p, pool.Part{}, past.Day{}), "peaks")); got != want {
			t.Errorf("in units of %q: %s, want %s", unit, got, want)
		}
	}
}
