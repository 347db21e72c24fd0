package ui

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/past"
	"github.com/leasectl/leasectl/leaseapi"
)

// view is for whom a page is made, and when. It turns times on the lease clock into what the
// template "time" shows. The types below add it to what package pool says, for templates.
type view struct {
	Operator bool // show what only an operator may do

	now  time.Duration // on the lease clock
	zero time.Time     // by the wall clock, when the lease clock showed zero
	// live leaves out how long ago a time was, because the browser counts that by itself. So
	// the text of a time changes only when the time itself does.
	live bool
}

// moment is a time as the template "time" shows it. live.js keeps the text up to date.
type moment struct {
	DateTime    string // in RFC 3339
	Is          string // the kind of text, for live.js
	Title, Text string // empty in a live page
}

func (v view) wall(at time.Duration) time.Time { return v.zero.Add(at).UTC() }

// Ago shows how long ago at was.
func (v view) Ago(at time.Duration) moment { return v.moment("ago", v.wall(at), "", " ago") }

// AgoWall shows how long ago a time by the wall clock was.
func (v view) AgoWall(at time.Time) moment { return v.moment("ago", at, "", " ago") }

// For shows how long ago at was, without the word ago.
func (v view) For(at time.Duration) moment { return v.moment("for", v.wall(at), "", "") }

// In shows how long it is until at.
func (v view) In(at time.Duration) moment { return v.moment("in", v.wall(at), "in ", "") }

// Until shows what In shows, without the word in.
func (v view) Until(at time.Duration) moment { return v.moment("until", v.wall(at), "", "") }

// moment shows the distance between at and now.
func (v view) moment(kind string, at time.Time, before, after string) moment {
	at = at.UTC().Round(time.Second)
	m := moment{DateTime: at.Format(time.RFC3339), Is: kind}
	if v.live {
		return m
	}
	distance := at.Sub(v.wall(v.now))
	if kind == "ago" || kind == "for" {
		distance = -distance
	}
	m.Title, m.Text = at.Format("2006-01-02 15:04:05 UTC"), before+span(distance)+after
	if kind == "in" && distance < time.Second {
		m.Text = "now"
	}
	return m
}

// span returns d as text in its two largest units, rounded down. A negative d counts as zero.
// live.js has the same function.
func span(d time.Duration) string {
	s := int(max(0, d) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 10*60 && s%60 != 0:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 3600:
		return fmt.Sprintf("%d min", s/60)
	case s < 24*3600:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	}
	return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
}

// many returns n with a noun.
func many(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}

// owner is an owner, with the name of its token.
type owner struct {
	Text  string // empty: unknown
	Href  string // empty unless the owner is a URL
	Token string // empty: none
}

// ownerOf returns the owner that a holder is, as package pool has it.
func ownerOf(holder string) owner {
	token, name := pool.SplitOwner(holder)
	href, _ := link(name)
	return owner{Text: leaseapi.Printable(name), Href: href, Token: leaseapi.Printable(token)}
}

// poolView is a pool, with the waits of the requests that were granted in the last day, and with
// what leases of a counted pool asked for and used.
type poolView struct {
	view
	pool.PoolStatus
	Waits past.Waits
	Names []pool.NameStatus // of a listed pool: the first of them
	Peaks *leaseapi.Peaks   // nil: nothing is known
}

// State returns the state of the pool in a word.
func (p poolView) State() string {
	switch {
	case p.Capacity == 0:
		return "draining"
	case p.Paused != nil:
		return "paused"
	case p.InUse >= p.Limit || p.Lacks > 0: // full for the first waiter is full for all
		return "full"
	case p.NextGrantIn > 0:
		return "paced"
	case p.Waiting > 0:
		return "blocked" // by a key, a name or another pool, or they would have been granted
	}
	return "free"
}

// urgency says how soon an operator should look at the pool.
func (p poolView) urgency() int {
	switch state := p.State(); {
	case state == "blocked":
		return 4
	case state == "full" && p.Waiting > 0:
		return 3
	case state == "paused":
		return 2
	case state == "full":
		return 1
	}
	return 0
}

// MoreNames is how many names the pool has that the page does not list.
func (p poolView) MoreNames() int { return max(0, p.Capacity-len(p.Names)) }

// Free shows when a name with a lock delay is free.
func (p poolView) Free(n pool.NameStatus) moment { return p.In(n.Until) }

// Units says what a counted pool is counted in.
func (p poolView) Units() string {
	if p.Unit == "" {
		return "units"
	}
	return "units of " + leaseapi.Printable(p.Unit)
}

// Amount is the head of a column of counts, or of units.
func (p poolView) Amount() string {
	if p.Counted {
		return "Units"
	}
	return "Count"
}

// Percent returns which part of the pool n units are.
func (p poolView) Percent(n int) string {
	return strconv.FormatFloat(100*float64(n)/float64(max(p.Capacity, p.InUse, 1)), 'f', 1, 64)
}

// Unlocked is when the last lock delay ends.
func (p poolView) Unlocked() moment { return p.In(p.now + p.LockedFor) }

// OldestWait is how long the first in the queue has waited.
func (p poolView) OldestWait() moment { return p.For(p.now - p.OldestWaiting) }

// NextGrant is when the pace allows the next grant.
func (p poolView) NextGrant() moment { return p.In(p.now + p.NextGrantIn) }

// ListedReserved are the reservations that the page lists, and MoreReserved is how many more there are.
func (p poolView) ListedReserved() []pool.Reserved {
	return p.Reserved[:min(len(p.Reserved), leaseapi.ListedReservations)]
}
func (p poolView) MoreReserved() int { return len(p.Reserved) - len(p.ListedReserved()) }

// HasMoved reports whether reports ever moved the limit.
func (p poolView) HasMoved() bool { return p.Moved != pool.Move{} }

// UsedUnits returns how many units bytes are.
func (p poolView) UsedUnits(bytes int64) string { return leaseapi.InUnits(bytes, p.Unit) }

// leasesView is a table of leases. It has the columns that any of them needs.
type leasesView struct {
	view
	Caption     string // only screen readers show it
	Units, Keys bool
	Rows        []leaseView
}

type leaseView struct {
	view
	*pool.Lease
	Overdue bool
}

// leases returns a table of leases of p.
func (v view) leases(caption string, leases []pool.Lease, p pool.PoolStatus) leasesView {
	t := leasesView{view: v, Caption: caption, Units: p.Counted}
	for i := range leases {
		l := &leases[i]
		t.Units = t.Units || l.Units > 1 // the pool was counted when it was granted
		t.Keys = t.Keys || l.HeldKey() != ""
		t.Rows = append(t.Rows, leaseView{v, l, p.LongestHold > 0 && v.now-l.Granted > p.LongestHold})
	}
	return t
}

// LastRenewal is when the lease was last renewed.
func (l leaseView) LastRenewal() moment { return l.Ago(max(l.Expires-l.TTL, l.Granted)) }

// remark is something unusual about a lease. Either text may be empty.
type remark struct{ Mark, Text string }

// Remarks returns what is unusual about the lease.
func (l leaseView) Remarks() (all []remark) {
	if l.Broken != "" {
		all = append(all, remark{"broken", leaseapi.Printable(l.Broken)})
	}
	if l.Draining {
		all = append(all, remark{"draining", "its name was taken out, and is not granted again"})
	}
	if l.Overdue {
		all = append(all, remark{"overdue", "held for longer than any other lately"})
	}
	if l.ReleaseAt > 0 {
		all = append(all, remark{"", "is given back at its end, whatever is renewed"})
	}
	if l.Overcommit {
		all = append(all, remark{"", "overcommit: may be over the limit"})
	}
	if l.Provisional {
		all = append(all, remark{"", "not confirmed yet"})
	}
	return all
}

// queueView is a table of waiters of a pool.
type queueView struct {
	Names, Keys bool // it has a column for them
	All         int  // how many wait, with those that the table lacks
	Rows        []waiterView
}

type waiterView struct {
	view
	pool.WaiterStatus
}

// queue returns a table of some waiters of p.
func (v view) queue(waiters []pool.WaiterStatus, p pool.PoolStatus) queueView {
	q := queueView{All: p.Waiting + p.Following, Keys: slices.ContainsFunc(waiters, func(w pool.WaiterStatus) bool { return w.Key != "" })}
	q.Names = slices.ContainsFunc(waiters, func(w pool.WaiterStatus) bool { return w.Name != "" })
	for _, w := range waiters {
		q.Rows = append(q.Rows, waiterView{v, w})
	}
	return q
}

// First and Last are the places at which the table begins and ends.
func (q queueView) First() int { return q.Rows[0].Place }
func (q queueView) Last() int  { return q.Rows[len(q.Rows)-1].Place }

// Why is why the waiter waits.
func (w waiterView) Why() why { return why{w.Reason, w.Follows, w.Away, orderWords(w.Order)} }

// Expected is how long the waiter may still wait.
func (w waiterView) Expected() estimate { return w.estimate(w.Estimate, w.EstimateMax) }

// why is why a request waits.
type why struct {
	Reason  leaseapi.WaitReason
	Follows string // the id of the request that it has joined; may be empty
	Away    bool   // its client is away
	Order   string // where the order of the queue puts it, in words; may be empty
}

// Before, Holder and After are the words of the reason; Holder is empty if it is about no owner.
func (w why) Before() string { before, _, _ := w.Reason.Words(); return before }
func (w why) After() string  { _, _, after := w.Reason.Words(); return after }
func (w why) Holder() string {
	if _, by, _ := w.Reason.Words(); by == "" {
		return ""
	}
	return pool.BindOwner(w.Reason.Token, w.Reason.By)
}

func orderWords(o pool.Order) string { return leaseapi.Order(o).Words() }

// estimate is how long a waiter may still wait: a range, since nobody knows it exactly.
type estimate struct {
	Known, Narrow bool
	In            moment // the range begins; a narrow one ends
	Until         moment // the range ends
}

func (v view) estimate(likely, most time.Duration) estimate {
	e := estimate{Known: most > 0, Narrow: most-likely < time.Second, In: v.In(v.now + likely), Until: v.Until(v.now + most)}
	if e.Narrow {
		e.In = v.In(v.now + most)
	}
	return e
}

// eventView is an event.
type eventView struct {
	view
	past.Event
}

func (v view) events(events []past.Event) []eventView {
	all := make([]eventView, len(events))
	for i, e := range events {
		all[i] = eventView{v, e}
	}
	return all
}

// More is how many names the event has beside those it lists.
func (e eventView) More() int { return e.NameCount - len(e.Names) }

// Remark says how long a lease was held or a request waited, and gives the detail.
func (e eventView) Remark() string {
	text := leaseapi.Printable(e.Detail)
	took := ""
	switch {
	case e.Took <= 0:
	case len(e.Names) > 0 && e.What != "granted":
		took = "held for " + span(e.Took)
	default:
		took = "waited for " + span(e.Took)
	}
	if text != "" && took != "" {
		return took + ": " + text
	}
	return took + text
}
