package page_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 59 * time.Second: "59 s", 61 * time.Second: "1 min 1 s", 120 * time.Second: "2 min", 601 * time.Second: "10 min",
		59*time.Minute + 59*time.Second: "59 min", time.Hour: "1 h 0 min", 25 * time.Hour: "1 d 1 h",
	} {
		if got := page.Span(d); got != want {
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
		if got := page.Matches(tt.text)(tt.owner, "", ""); got != tt.want {
			t.Errorf("%s and the owner %s: %v, want %v", tt.text, tt.owner, got, tt.want)
		}
	}
}

// view is at a minute past noon.
func view(live bool) page.View {
	return page.View{
		Clock: page.Clock{Now: time.Minute, Zero: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), Live: live},
	}
}

// text is the part of a page with that id.
func text(p page.Page, id string) string {
	for _, part := range p.Parts {
		if part.ID == id {
			return part.HTML.String()
		}
	}
	return ""
}

// A pool is in one of five states, which the page names.
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
		{"draining", "never", pool.PoolStatus{Capacity: 0, InUse: 2}},
	} {
		tt.p.Type = "t"
		got := text(view(false).Overview([]page.Pool{{PoolStatus: tt.p}}, 0), "pools")
		for _, part := range []string{`<span class="state ` + tt.want + `">` + tt.want + `</span>`, tt.next} {
			if !strings.Contains(got, part) {
				t.Errorf("%s:\n%s", part, got)
			}
		}
	}
}

// A lease that is held for longer than any other lately stands out.
func TestOverdue(t *testing.T) {
	p := page.Pool{PoolStatus: pool.PoolStatus{Type: "t", Capacity: 2, Limit: 2, InUse: 2, LongestHold: 30 * time.Second, Leases: []pool.Lease{
		{Name: "late", Granted: 29 * time.Second}, {Name: "young", Granted: 31 * time.Second},
	}}}
	got := text(view(false).Pool(p, pool.Part{}, page.Day{}), "held")
	if strings.Count(got, "overdue</strong>") != 1 || strings.Index(got, `class="overdue"`) > strings.Index(got, "late") {
		t.Errorf("%s", got)
	}
}

// A name that was taken out while it is held is marked.
func TestDrainingName(t *testing.T) {
	p := page.Pool{PoolStatus: pool.PoolStatus{Type: "t", Capacity: 1, Limit: 1, InUse: 2, Leases: []pool.Lease{{Name: "out", Draining: true}, {Name: "in"}}}}
	got := text(view(false).Pool(p, pool.Part{}, page.Day{}), "held")
	if strings.Count(got, "draining</strong>") != 1 || strings.Index(got, "draining</strong>") > strings.Index(got, ">in<") {
		t.Errorf("%s", got)
	}
}

// A part of a live page is the same as long as nothing happens, however late it is.
func TestLivePartsStayTheSame(t *testing.T) {
	p := page.Pool{PoolStatus: pool.PoolStatus{
		Type: "t", Capacity: 2, Limit: 2, InUse: 1, Waiting: 1, OldestWaiting: 30 * time.Second, NextGrantIn: 50 * time.Second,
		Leases:  []pool.Lease{{Name: "n", RequestID: "r", Granted: 10 * time.Second, Expires: time.Hour, TTL: time.Hour}},
		Waiters: []pool.WaiterStatus{{ID: "w", Place: 1, Arrived: 30 * time.Second, Estimate: time.Minute, EstimateMax: 2 * time.Minute}},
	}}
	now, later := view(true), view(true)
	first := now.Pool(p, pool.Part{}, page.Day{})
	later.Now += 20 * time.Second
	p.OldestWaiting += 20 * time.Second
	p.NextGrantIn -= 20 * time.Second
	p.Waiters[0].Estimate -= 20 * time.Second
	p.Waiters[0].EstimateMax -= 20 * time.Second
	for _, part := range later.Pool(p, pool.Part{}, page.Day{}).Parts {
		if got, want := part.HTML.String(), text(first, part.ID); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", part.ID, got, want)
		}
	}
}

// Charts show the shortest of an hour, six hours and a day that has all minutes. A step is
// drawn once.
func TestCharts(t *testing.T) {
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	chart := func(minutes int) string {
		d := page.Day{Begin: begin, Started: begin, Minutes: make([]page.Minute, minutes)}
		for i := range d.Minutes {
			d.Minutes[i] = page.Minute{InUse: 3, Limit: 4}
		}
		d.Minutes[minutes-1].Starts = 7
		return text(view(false).Pool(page.Pool{PoolStatus: pool.PoolStatus{Type: "t", Capacity: 4}}, pool.Part{}, d), "charts")
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
	for _, a := range []page.Asset{page.Style, page.Script} {
		if strings.Contains(a.Text, "http:") || strings.Contains(a.Text, "https:") || strings.Contains(a.Text, "//") && a.Name == "style.css" || a.Text == "" {
			t.Errorf("%s may ask another host", a.Name)
		}
	}
	if text := page.Message("t", "m", "javascript:x", "y").Document(page.Frame{}); strings.Contains(text, "javascript") || strings.Contains(text, "://") {
		t.Errorf("%s", text)
	}
}

// Units, keys and their holders stand in the tables of a pool that has them, and
// the bar shows a limit below the capacity.
func TestUnitsAndKeys(t *testing.T) {
	p := page.Pool{PoolStatus: pool.PoolStatus{
		Type: "mem", Counted: true, Unit: "1Mi", Capacity: 8192, Limit: 6000, InUse: 928, LockDelayed: 512, LockedFor: 14 * time.Second, Waiting: 1,
		Leases:  []pool.Lease{{Name: "mem-1", Owner: "holder<", Units: 928, Ask: pool.Ask{Key: "obj<1", Overcommit: true}}},
		Waiters: []pool.WaiterStatus{{ID: "w", Place: 1, Units: 512, Key: "obj<1", KeyHolder: "holder<", Reason: "key"}},
	}}
	made := view(false).Pool(p, pool.Part{}, page.Day{})
	if got := text(made, "queue"); !strings.Contains(got, ">Units</th>") || !strings.Contains(got, "<bdi>obj&lt;1</bdi>") ||
		!strings.Contains(got, `key held by <bdi class="owner">holder&lt;</bdi>`) || !strings.Contains(got, ">512<") {
		t.Errorf("%s", got)
	}
	if got := text(made, "held"); !strings.Contains(got, ">928<") || !strings.Contains(got, "<bdi>obj&lt;1</bdi>") || !strings.Contains(got, "overcommit") {
		t.Errorf("%s", got)
	}
	if got := text(made, "state"); !strings.Contains(got, "<b>928</b> of 6000") || !strings.Contains(got, "units of 1Mi") ||
		!strings.Contains(got, "limit 6000, capacity 8192") || !strings.Contains(got, "512 with a lock delay, over <time") || !strings.Contains(got, ">in 14 s</time>") || !strings.Contains(got, `class="limit" x="73.2"`) {
		t.Errorf("%s", got)
	}
}
