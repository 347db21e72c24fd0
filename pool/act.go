package pool

import "cmp"

// Act is what an operator does, for those concerned: those who lose by it read why,
// and the log and the status page say by whom.
type Act struct {
	By     string // empty: nobody knows
	Reason string
}

// orNone returns a with a reason for people, if it has none.
func (a Act) orNone() Act {
	a.Reason = cmp.Or(a.Reason, "no reason given")
	return a
}
