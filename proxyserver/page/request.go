package page

import (
	"errors"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// Request is a request as a page shows it. Type is empty if the request has ended.
type Request struct {
	pool.Request
	Arrived time.Duration
	Status  pool.Status
	Pool    pool.PoolStatus
	Events  []Event // those of this request
}

// Request shows where a request stands.
func (v View) Request(r Request) Page {
	page := Page{Title: "Request " + r.ID, Live: livePath(RequestPath(r.ID))}
	page.add("request", func(b *markup.Builder) {
		switch r.Status.State {
		case pool.StateQueued, pool.StateJoined:
			v.queued(b, r)
		case pool.StateGranted:
			b.Put(`<p class="lead" role="status">It has its lease, of the pool <a href="{}"><bdi>{}</bdi></a>.</p>`, PoolPath(r.Type), r.Type)
			v.leases(b, "Leases of this request", r.Status.Leases, r.Pool)
		default:
			ended(b, r)
		}
	})
	page.add("events", func(b *markup.Builder) {
		if len(r.Events) > 0 {
			b.Put(`<h2>What happened</h2>`)
			v.events(b, r.Events)
		}
	})
	return page
}

func (v View) queued(b *markup.Builder, r Request) {
	st := r.Status
	if st.State == pool.StateJoined {
		b.Put(`<p class="lead" role="status">It waits for the end of a run that is under way in the pool <a href="{}"><bdi>{}</bdi></a>.</p>`, PoolPath(r.Type), r.Type)
	} else {
		b.Put(`<p class="lead" role="status">It waits at place <strong>{}</strong> of {} for a lease of the pool <a href="{}"><bdi>{}</bdi></a>.</p>`,
			itoa(st.Place), itoa(st.Length), PoolPath(r.Type), r.Type)
	}
	b.Put(`<dl class="facts"><div><dt>Why it waits</dt><dd>`)
	writeReason(b, st.Reason, st.KeyHolder, st.Follows, st.Reason == "")
	b.Put(`</dd></div><div><dt>Its turn comes</dt><dd>`)
	v.estimate(b, st.Estimate, st.EstimateMax)
	b.Put(`</dd></div><div><dt>Waits for</dt><dd>`)
	v.lasts(b, r.Arrived)
	b.Put(`</dd></div><div><dt>{}</dt><dd>{}</dd></div>`, amount(r.Pool), itoa(st.Units))
	if st.Key != "" {
		b.Put(`<div><dt>Key</dt><dd>`)
		writeKey(b, st.Key)
		b.Put(`</dd></div>`)
	}
	b.Put(`<div class="wide"><dt>In use</dt><dd>`)
	v.bar(b, r.Pool)
	b.Put(`</dd></div><div class="wide"><dt>Owner</dt><dd>`)
	writeOwner(b, r.Owner)
	b.Put(`</dd></div>`)
	if l := st.Oldest; l != nil {
		b.Put(`<div class="wide"><dt>Held longest by</dt><dd>`)
		writeOwner(b, l.Owner)
		b.Put(`, for `)
		v.lasts(b, l.Granted)
		b.Put(`</dd></div>`)
	}
	b.Put(`</dl>`)
	if v.Operator {
		b.Put(`<p class="actions"><a class="button" href="{}">Remove…</a></p>`, query("/ui/remove", "request", r.ID))
	}
}

// ended says how a request ended.
func ended(b *markup.Builder, r Request) {
	removed, _ := errors.AsType[*pool.RemovedError](r.Status.Why)
	switch {
	case removed != nil:
		b.Put(`<p class="lead" role="status">An operator removed it from the queue: <bdi>{}</bdi></p>`, leaseapi.Printable(removed.Reason))
	case errors.Is(r.Status.Why, pool.ErrUnconfirmed):
		b.Put(`<p class="lead" role="status">It has ended: its lease was granted, and nobody confirmed it in time.</p>`)
	default:
		b.Put(`<p class="lead" role="status">It has ended: its lease was released, expired or broken, or it left the queue.</p>`)
	}
}
