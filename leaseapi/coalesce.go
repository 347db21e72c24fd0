package leaseapi

// Values of [ParamCoalesce]: how a request merges with others of its key, instead of
// waiting for a turn of its own. One that merged ends with 410: [ProblemCoalesced], with
// the exit code of the run that stood for its own, or [ProblemSuperseded].
const (
	CoalesceJoin   = "join"   // with the last waiter, if that has the same variant
	CoalesceOnce   = "once"   // likewise, or, if nobody waits, with the run under way
	CoalesceLatest = "latest" // it takes the place of the last waiter, which is superseded
)
