package leaseapi

// Values of [ParamCoalesce]: how a request merges with others of its key, instead of
// waiting for a turn of its own. A merged request ends with 410: [ProblemCoalesced], with
// the exit code of the run that it joined, or [ProblemSuperseded].
const (
	CoalesceJoin   = "join"   // joins the last waiter, if that has the same variant
	CoalesceOnce   = "once"   // as join; if nobody waits, joins the run under way
	CoalesceLatest = "latest" // takes the place of the last waiter, which is superseded
)
