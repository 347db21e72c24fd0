package proxyclient

// repeatPolicy decides whether a call may be sent again. mayRepeat is called exactly once
// after each attempt, so it may also keep track of the attempts.
type repeatPolicy interface {
	mayRepeat(o outcome) bool
}

// idempotent is the policy of calls that may be sent any number of times: they are
// repeated while the next outcome may be better. The zero value repeats after network
// failures and failures of a server or gateway.
type idempotent struct {
	// misrouted repeats after a 404 that no proxy wrote. It is set for calls about
	// something that the proxy has issued: the address was right then, so the 404 will
	// pass.
	misrouted bool
	// unfinished reports that a success is not the expected answer, which may
	// come next time; nil: every success counts.
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
