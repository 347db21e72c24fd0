package proxyclient

import (
	"net/http"

	"github.com/leasectl/leasectl/leaseapi"
)

// outcomeKind is the kind of result of one attempt to acquire.
type outcomeKind int

const (
	unsent    outcomeKind = iota // no byte of the request can have arrived, or only at a standby, which did nothing
	ambiguous                    // the request may have been carried out, or may still be
	denied                       // the proxy says that it granted nothing; it may be asked again
	queued                       // the request has a place in the proxy's queue
	granted
	refused    // for good
	unanswered // the proxy recognises the request, but has not answered it for too long
	abandoned  // the proxy is gone, so no answer will come
)

// attempt is the result of an attempt to acquire.
type attempt struct {
	kind  outcomeKind
	reply leaseapi.AcquireReply // if granted
	place *leaseapi.Queued      // if queued
}

// classify returns the result of an attempt to acquire that came to o. It is the only
// place that decides whether leases may have been granted. id is the request's id, known
// what the proxy has shown before.
func classify(o outcome, id string, known Capabilities) attempt {
	switch {
	case o.err != nil && !o.sent && !o.heard:
		return attempt{kind: unsent}
	case o.err != nil:
		return attempt{kind: ambiguous}
	case o.StatusCode == http.StatusOK:
		a := attempt{kind: granted}
		if o.decode(&a.reply) == nil && a.reply.Names != nil {
			return a
		}
	case o.StatusCode == http.StatusAccepted:
		a := attempt{kind: queued, place: new(leaseapi.Queued)}
		if o.decode(a.place) == nil && a.place.RequestID == id {
			return a
		}
	case o.standby():
		return attempt{kind: unsent}
	case o.is(leaseapi.ProblemExhausted), o.StatusCode >= 500 && o.begins(leaseapi.TextAcquireFailed):
		return attempt{kind: denied}
	}
	if o.StatusCode/100 == 2 || o.passing() || known.RequestIDs() && o.misrouted() {
		return attempt{kind: ambiguous}
	}
	return attempt{kind: refused}
}

// step is what follows an attempt to acquire.
type step int

const (
	retry    step = iota // make it again after a pause, while patience lasts
	identify             // find out what the proxy can do, to decide whether to repeat the attempt
	resume               // make it again, to go on waiting in the queue
	accept               // hand the grant over
	fail                 // give up
)

// steps is the next step after each kind of outcome: recognised if the proxy recognises
// the id of the request, so that a repetition takes no second lease, and elsewhere if not.
var steps = [...]struct{ recognised, elsewhere step }{
	unsent:    {retry, retry},
	ambiguous: {retry, identify},
	denied:    {retry, retry},
	queued:    {resume, resume},
	granted:   {accept, accept},
	refused:   {fail, fail},
	// When send has returned, retry means that its patience ran out.
	unanswered: {resume, resume},
	abandoned:  {retry, retry},
}

func (k outcomeKind) next(recognised bool) step {
	if recognised {
		return steps[k].recognised
	}
	return steps[k].elsewhere
}
