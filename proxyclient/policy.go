package proxyclient

// repeatPolicy decides whether a call may be sent again. It is asked once after
// every attempt, so it may also keep count of them.
type repeatPolicy interface {
	mayRepeat(o outcome) bool
}

// idempotent is the policy of calls that do no harm however often they are
// sent: they are repeated while the outcome may be a better one next time. The
// zero value repeats failures on the way and failures of a server.
type idempotent struct {
	// misrouted repeats a 404 that no proxy wrote. It is set where the call names what
	// only the proxy can have given: its address is right, and the 404 passes.
	misrouted bool
	// unfinished reports a success that is not what was asked for, but may be
	// next time; nil: every success counts.
	unfinished func(answer) bool
}

func (p idempotent) mayRepeat(o outcome) bool {
	switch {
	case o.transient() || p.misrouted && o.misrouted():
		return true
	case o.StatusCode/100 != 2:
		return false
	}
	return p.unfinished != nil && p.unfinished(o.answer)
}
