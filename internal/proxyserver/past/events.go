package past

import (
	"fmt"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// Event is one thing that happened.
type Event struct {
	Number    uint64 // ascending
	At        time.Time
	What      string // in a word, as the log has it
	Type      string
	Holder    string   // the owner as package pool has it, with the name of the token
	Names     []string // the first of NameCount
	NameCount int
	RequestID string // empty: the event has none
	Took      time.Duration
	By        string // the operator whose act caused it; empty: no operator, or not known
	Detail    string
}

// mostNames is how many names of an event are kept.
const mostNames = 10

// eventOf returns the event of a change; false if the change is no event.
func eventOf(c *pool.Change) (Event, bool) {
	switch c.Kind {
	case pool.Granted:
		e := leaseEvent("granted", c.Leases...)
		e.Took = c.Took
		return e, true
	case pool.Broken:
		e := leaseEvent("breaking", c.Lease)
		e.By, e.Detail = c.Act.By, c.Lease.Broken
		return e, true
	case pool.Done:
		e := leaseEvent(string(c.Reason), c.Lease)
		if e.Took = c.Took; c.Reason.Broken() {
			e.What, e.By, e.Detail = "broken", c.Act.By, c.Lease.Broken
		}
		return e, true
	case pool.Dropped:
		end := c.WaitEnd()
		e := Event{What: string(end), Type: c.Request.Type, Holder: c.Request.Owner, Took: c.Took}
		if !c.Request.Anonymous {
			e.RequestID = c.Request.ID
		}
		if end == pool.WaitRemoved || end == pool.WaitReconfigured {
			e.By, e.Detail = c.Act.By, c.WaitEndWhy()
		}
		return e, true
	case pool.Moved:
		e := Event{What: "moved", Type: c.Waiter.Type, Holder: c.Waiter.Owner, By: c.Act.By, Detail: fmt.Sprintf("to priority %d: %s", c.Waiter.PriorityNow, c.Act.Reason)}
		if !c.Waiter.Anonymous {
			e.RequestID = c.Waiter.ID
		}
		return e, true
	case pool.Resized:
		e := leaseEvent("resized", c.Lease)
		e.Detail = fmt.Sprintf("from %d to %d units", c.Before, c.Lease.Units)
		return e, c.Lease.Units != c.Before
	case pool.Adapted:
		return moveEvent(c.Reports.Type, c.Reports.Moved), c.Moved
	case pool.NameReserved:
		return reservedEvent("reserved", c), !c.Reserved.NoPool
	case pool.NameGivenBack:
		return reservedEvent("given back", c), true
	case pool.Paused:
		return Event{What: "paused", Type: c.Pause.Type, By: c.Act.By, Detail: c.Act.Reason}, true
	case pool.Resumed:
		return Event{What: "resumed", Type: c.Pause.Type, By: c.Act.By, Detail: c.Act.Reason}, true
	}
	return Event{}, false
}

// Words returns the words for all events: the values that [Event.What] may have.
func Words() []string {
	words := []string{"granted", string(pool.Released), string(pool.Expired), "breaking", "broken", "resized", pool.LimitCut, pool.LimitRaised, "paused", "resumed", "moved", "reserved", "given back"}
	for _, end := range pool.WaitEnds {
		words = append(words, string(end))
	}
	return words
}

func leaseEvent(what string, leases ...pool.Lease) Event {
	first := leases[0]
	names := make([]string, min(len(leases), mostNames))
	for i := range names {
		names[i] = leases[i].Name
	}
	return Event{
		What: what, Type: first.Type, Holder: first.Owner, RequestID: first.RequestID,
		Names: names, NameCount: len(leases),
	}
}

// reservedEvent returns the event of a reservation, which has the reason of the reservation.
func reservedEvent(what string, c *pool.Change) Event {
	r := c.Reserved
	return Event{What: what, Type: r.Type, Holder: r.Owner, Names: []string{r.Name}, NameCount: 1, By: c.Act.By, Detail: r.Reason}
}

// moveEvent returns the event of a move of a limit, with the holder whose report decided it.
func moveEvent(typ string, m pool.Move) Event {
	e := Event{What: m.What(), Type: typ, Holder: m.Owner, Detail: fmt.Sprintf("from %d to %d: %s", m.From, m.To, m.Why())}
	if m.Detail != "" {
		e.Detail += ": " + m.Detail
	}
	return e
}
