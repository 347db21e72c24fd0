package pool

import "cmp"

// Act says who did something as an operator, and why. Clients that lose by it read the reason;
// the log and the status page also show who.
type Act struct {
	By     string // empty: nobody knows
	Reason string
}

// orNone returns a, with a text for people if it has no reason.
func (a Act) orNone() Act {
	a.Reason = cmp.Or(a.Reason, "no reason given")
	return a
}
