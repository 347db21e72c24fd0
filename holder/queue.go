package holder

import (
	"fmt"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// DescribeQueue says where a request stands in its queue: its place, why it waits, who holds
// longest, and how long the wait may take. at is when the proxy sent q. The text is "" if q
// says nothing.
func DescribeQueue(q leaseapi.Queued, at, now time.Time) string {
	return leaseapi.Printable(strings.Join(append(placeWords(q, at, now), estimate(q, now.Sub(at))...), ", "))
}

// placeWords is DescribeQueue without the estimate.
func placeWords(q leaseapi.Queued, at, now time.Time) (words []string) {
	if q.Place > 0 {
		words = append(words, fmt.Sprintf("place %d of %d", q.Place, q.Length))
	}
	switch {
	case q.Reason == leaseapi.WaitJoined:
		words = append(words, "joined the run of request "+q.Follows)
	case q.Follows != "":
		words = append(words, "with request "+q.Follows, q.Reason)
	case q.Reason != "":
		words = append(words, q.Reason)
	}
	if order := q.Order.Words(); order != "" {
		words = append(words, order)
	}
	if q.Capacity > 0 {
		words = append(words, fmt.Sprintf("%d of %d in use", q.InUse, q.Capacity))
	}
	if q.Limit > 0 && q.Limit < q.Capacity {
		words = append(words, fmt.Sprintf("limit %d", q.Limit))
	}
	if o := q.Oldest; o != nil {
		words = append(words, "held longest by "+holderOf(o)+" since "+clock(at.Add(-time.Duration(o.Age)), now))
	}
	return words
}

// holderOf names the holder of a lease.
func holderOf(l *leaseapi.PoolLease) string {
	switch {
	case l.Owner != "":
		return l.Owner
	case l.Token != "":
		return "token " + l.Token
	}
	return "somebody without a name" // a version-1 client
}

// clock formats t as a local time of day, with the date if that is not today's.
func clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// estimate says how much is left of the proxy's estimate. It says nothing without an upper
// bound: a proxy that gives none begins its estimate anew with each answer.
func estimate(q leaseapi.Queued, elapsed time.Duration) []string {
	low, high := time.Duration(q.Estimate)-elapsed, time.Duration(q.EstimateMax)-elapsed
	switch {
	case q.EstimateMax <= 0:
		return nil
	case high <= 0:
		return []string{"longer than expected"}
	}
	return []string{span(low, high) + " to go"}
}

// span describes a time between low and high, for people.
func span(low, high time.Duration) string {
	switch {
	case low <= 0:
		return "up to " + roughly(high)
	case roughly(low) == roughly(high):
		return "about " + roughly(high)
	}
	return roughly(low) + " to " + roughly(high)
}

// roughly rounds d up to the precision of an estimate: from 1 s to 5 min, as d grows.
func roughly(d time.Duration) string {
	unit := time.Second
	switch {
	case d > time.Hour:
		unit = 5 * time.Minute
	case d > 2*time.Minute:
		unit = time.Minute
	case d > 20*time.Second:
		unit = 5 * time.Second
	}
	return leaseapi.Duration((d + unit - 1) / unit * unit).String()
}
