package pool

import (
	"fmt"
	"strings"
	"time"
)

// owner is a client with one request at a time. The state of the request is looked up in the
// model: an owner knows the truth, unless it has gone.
type owner struct {
	name    string
	request Request
}

// act lets a random party do one thing.
func (m *sim) act() {
	if m.rand.IntN(m.world.operateEvery) == 0 {
		m.operate()
		return
	}
	switch n := m.rand.IntN(100); {
	case n < 2 && len(m.past) > 0:
		m.count("copies")
		m.past[m.rand.IntN(len(m.past))]()
	case n < 7:
		m.strangerActs()
	case n < 8:
		m.operatorActs()
	case n < 14:
		m.somebodyReports()
	case n < 16:
		m.status()
	case n < 40 && len(m.soon) > 0:
		i := m.rand.IntN(len(m.soon))
		o := m.soon[i]
		m.soon[i] = m.soon[len(m.soon)-1]
		m.soon = m.soon[:len(m.soon)-1]
		m.ownerGoesOn(o)
	default:
		m.ownerActs(m.owners[m.rand.IntN(len(m.owners))])
	}
}

// ownerGoesOn comes back for the next slice, or confirms a grant.
func (m *sim) ownerGoesOn(o *owner) {
	r := m.requests[o.request.ID]
	switch {
	case r == nil:
	case !r.queued:
		for _, l := range r.leases {
			m.renew(ref(l.Lease), 0)
		}
	case !r.Anonymous:
		m.ask(o.request)
	}
}

// ask acquires, and keeps a copy that arrives again later.
func (m *sim) ask(q Request) {
	if !q.Anonymous {
		m.remember(func() { m.acquire(q) })
	}
	m.acquire(q)
}

// remember keeps a call that will be repeated, as by a network or by a client that saw no
// answer.
func (m *sim) remember(call func()) {
	if len(m.past) < 200 {
		m.past = append(m.past, call)
	} else {
		m.past[m.rand.IntN(len(m.past))] = call
	}
}

func (m *sim) ownerActs(o *owner) {
	r := m.requests[o.request.ID]
	n := m.rand.IntN(100)
	switch {
	case r == nil && (n < 90 || o.request.Anonymous || o.request.ID == ""):
		o.request = m.newRequest(o)
		m.ask(o.request)
	case r == nil: // repeats a request that is over, or was forgotten in a restart
		m.ask(o.request)
	case n < 4: // dies, and another owner comes in its place
		m.count("crashes of owners")
		for r.queued && r.attached > 0 && m.rand.IntN(4) > 0 { // a stranger finds out the rest later
			m.detach(r.ID, 0)
		}
		o.request = Request{}
	case n < 8:
		m.remember(func() { m.cancel(r.ID) })
		m.cancel(r.ID)
	case r.queued:
		m.waiterActs(o, r, n)
	default:
		m.holderActs(r, n)
	}
}

func (m *sim) newRequest(o *owner) Request {
	m.ids++
	p := m.order[0]
	switch m.rand.IntN(4) {
	case 0:
		if units := m.pools["units"]; units != nil {
			p = units
		}
	case 1:
		p = m.order[m.rand.IntN(len(m.order))]
	}
	q := Request{ID: fmt.Sprintf("r%d", m.ids), Type: p.Type, Owner: o.name}
	q.Weighted = m.rand.IntN(4) > 0
	switch n := m.rand.IntN(12 * m.world.large); {
	case n < 3:
		q.Count = 1 + m.rand.IntN(min(20, p.capacity()+1))
	case n < 4:
		q.Count = p.capacity()
	case n < 5:
		q.Count = p.capacity() + 1
	case n < 6:
		q.Type = "no such type"
	}
	if m.rand.IntN(2) == 0 {
		q.TTL = time.Duration(1+m.rand.IntN(180)) * time.Second
	}
	odd := m.rand.IntN(20) == 0 // asks for what the pool does not have
	if (q.Weighted && q.Count == 0 && p.Cost != nil && m.rand.IntN(2) == 0) || odd {
		q.HasItems, q.Items = true, m.rand.IntN(12)
	}
	if m.rand.IntN(2) == 0 {
		q.Key = fmt.Sprint("k", m.rand.IntN(m.world.keys))
	}
	switch n := m.rand.IntN(24); {
	case q.Key == "":
	case n < 6: // a key that few write, and nobody merges for
		q.Key = "s" + q.Key
		q.ReadsKey = n < 4
	case n < 7:
		q.ReadsKey = true
	case n < 22:
		q.Coalesce, q.Variant = Coalesce(m.rand.IntN(4)), fmt.Sprint("v", m.rand.IntN(5)/4)
		if m.rand.IntN(10) == 0 {
			q.Owner = BindOwner("token", q.Owner)
		}
	}
	if p.Units == 0 && m.rand.IntN(4) == 0 || m.rand.IntN(100) == 0 {
		m.nameOne(p, &q)
	}
	if m.rand.IntN(3) == 0 {
		q.Priority = m.somePriority()
	}
	if q.Coalesce == 0 && q.Name == "" && q.Type != m.world.alone && m.rand.IntN(m.world.severalEvery) == 0 {
		q.Also = m.someAlso(q.Type)
	}
	if q.Also != "" {
		q.Try = m.rand.IntN(10) == 0
		return q
	}
	q.Overcommit = m.rand.IntN(4) == 0 && (p.Overcommit > 0 || odd)
	q.Anonymous = m.rand.IntN(8) == 0
	q.Try = m.rand.IntN(10) == 0
	return q
}

// someAlso is one or two other types, and at times how much of each. Every second request wants the same
// other type as many do, so that some overtake others in several pools at once.
func (m *sim) someAlso(first string) string {
	var lines []string
	others := m.rand.Perm(len(m.order))
	if m.rand.IntN(2) == 0 {
		others = []int{1, 0}
	}
	for _, i := range others[:min(len(others), 1+m.rand.IntN(3))] {
		typ := m.order[i].Type
		if typ == m.world.alone {
			continue
		}
		if m.rand.IntN(100) == 0 {
			typ = "no such type"
		}
		if typ == first {
			continue
		}
		if m.rand.IntN(3) == 0 {
			typ = fmt.Sprint(typ, "=", 1+m.rand.IntN(min(5, 1+m.order[i].capacity())))
		}
		lines = append(lines, strings.ReplaceAll(typ, " ", "_"))
	}
	return strings.Join(lines, "\n")
}

func (m *sim) waiterActs(o *owner, r *modelRequest, n int) {
	again := o.request
	again.Try = n%25 == 0
	switch {
	case r.Anonymous: // its connection breaks, or it waits on
		if n < 20 {
			m.detach(r.ID, 0)
		}
	case r.attached == 0 || n < 25: // comes back, or does not know yet that the old connection broke
		m.count("asked again")
		m.ask(again)
	case n < 60: // a slice is over
		m.detach(r.ID, 2*time.Second)
		if m.rand.IntN(10) > 0 {
			m.soon = append(m.soon, o)
		}
	case n < 75, len(r.followers) > 0: // the connection breaks
		m.detach(r.ID, 0)
	case n < 80:
		m.withdraw(r.ID)
	}
}

func (m *sim) holderActs(r *modelRequest, n int) {
	l := r.leases[m.rand.IntN(len(r.leases))].Lease
	if len(r.followers) > 0 && n < 60 { // finish more often if others wait for it
		m.finishAll(r)
		return
	}
	switch {
	case n < 30:
		m.resizeOne(l)
	case n < 50:
		ttl := time.Duration(m.rand.IntN(3)) * 50 * time.Second
		for _, l := range r.leases {
			m.renew(ref(l.Lease), ttl)
		}
	case n < 70:
		if n < 60 {
			m.report(Report{RequestID: r.ID, Outcome: OutcomeOK})
		}
		for len(r.leases) > 0 {
			m.releaseTwice(ref(r.leases[0].Lease), 0)
		}
	case n < 80:
		m.count("delayed")
		m.releaseTwice(ref(l), time.Duration(1+m.rand.IntN(400))*time.Second)
	case n < 83:
		m.swap(r)
	case n < 85:
		known := m.wall.Add(time.Duration(m.rand.IntN(20_000)-10_000) * time.Millisecond)
		m.releaseTwice(Ref{Name: l.Name, Owner: l.Owner, KnownAt: known}, 0)
	default:
		q := r.Request
		switch { // another request under the same id
		case n < 88:
			q.Owner += "x"
		case n < 89:
			q.Key += "x"
		case n < 90:
			q.ReadsKey = !q.ReadsKey
			q.Name += "x"
		case n < 91:
			q.Weighted = !q.Weighted
		case n < 92:
			q.Items++
		case n < 93:
			q.Priority++
		case n < 94 && q.Coalesce == 0 && q.Name == "" && !q.Overcommit && !q.Anonymous: // see Ask.Also
			q.Also = m.someAlso(q.Type)
		}
		m.ask(q)
	}
}

// swap acquires in the place of the leases of r, and at times of others.
func (m *sim) swap(r *modelRequest) {
	o := m.byName[r.Owner]
	if o == nil { // under a token
		return
	}
	var replaces []Ref
	for _, l := range r.leases {
		replaces = append(replaces, ref(l.Lease))
	}
	switch m.rand.IntN(4) {
	case 0: // somebody else's, or one that ended
		replaces = append(replaces, m.someRef())
	case 1: // one of several, twice
		replaces = []Ref{replaces[0], replaces[0]}
	}
	q := m.newRequest(o)
	q.Anonymous, q.Try = false, false
	if q.Key != "" && m.rand.IntN(2) == 0 {
		q.Type, q.Key, q.Also = r.Type, r.Key, "" // the key that it has
	}
	o.request = q
	m.remember(func() { m.reacquire(q, replaces) })
	m.reacquire(q, replaces)
}

// finishAll ends a run whose command ended by itself, and reports that twice.
func (m *sim) finishAll(r *modelRequest) {
	result := Exited(m.rand.IntN(256))
	for len(r.leases) > 0 {
		at := ref(r.leases[0].Lease)
		m.remember(func() { m.finish(at, result) })
		m.finish(at, result)
	}
}

// resizeOne gives a lease another size. At times it repeats that later, or gives a wrong
// present size.
func (m *sim) resizeOne(l Lease) {
	to := 1 + m.rand.IntN(min(20, m.pools[l.Type].capacity()+1))
	if m.rand.IntN(2) == 0 {
		to = max(1, l.Units+m.rand.IntN(5)-2)
	}
	r := Resizing{From: l.Units, To: to}
	if m.rand.IntN(8) == 0 {
		r.From++
	}
	if m.rand.IntN(4) > 0 { // else the client does not know it
		r.After = new(l.Resizes)
	}
	m.remember(func() { m.resize(ref(l), r) })
	m.resize(ref(l), r)
}

func (m *sim) releaseTwice(ref Ref, delay time.Duration) {
	m.remember(func() { m.release(ref, delay) })
	m.release(ref, delay)
}

// strangerActs makes calls that belong to no owner.
func (m *sim) strangerActs() {
	if len(m.waiters) > 0 && m.rand.IntN(2) == 0 {
		r := m.waiters[m.rand.IntN(len(m.waiters))]
		if r.attached > 0 {
			m.detach(r.ID, 0)
		}
		return
	}
	switch m.rand.IntN(5) {
	case 0:
		m.ids++
		m.cancel(fmt.Sprintf("r%d", m.ids)) // before the request was seen
	case 1:
		m.detach(fmt.Sprintf("r%d", m.rand.IntN(m.ids+1)), 0)
	case 2:
		m.renew(m.someRef(), time.Duration(m.rand.IntN(2))*time.Minute)
	default:
		m.release(m.someRef(), 0)
	}
}

// someRef is a random lease, or none.
func (m *sim) someRef() Ref {
	if len(m.leases) == 0 || m.rand.IntN(10) == 0 {
		return Ref{Name: "nobody", Generation: m.rand.Uint64N(100)}
	}
	l := m.leases[m.rand.IntN(len(m.leases))]
	switch m.rand.IntN(4) {
	case 0:
		return Ref{Name: l.Name}
	case 1:
		return Ref{Name: l.Name, Owner: m.owners[m.rand.IntN(len(m.owners))].name}
	case 2:
		return Ref{Name: l.Name, Generation: l.Generation - 1}
	}
	return ref(l.Lease)
}
