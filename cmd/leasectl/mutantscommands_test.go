package main

// commandMutants are bugs of what commands say, refuse and return, and of calls that
// hold up others.
var commandMutants = []mutant{
	{"a short wait ends without a reason", "holder/ask.go", "case p.InUse >= limit:", "case false:",
		"./holder", "TestQueueOf", false},
	{"a lost handle of an exec is none", "cmd/leasectl/args.go", "state == supervisor.StateAcquired ||", "state == supervisor.StateAcquired && false ||",
		"./cmd/leasectl", "TestScripts/without_lease", false},
	{"an empty handle beside --all is passed over", "cmd/leasectl/release.go", "o.none != \"\" || len(o.names)", "len(o.names)",
		"./cmd/leasectl", "TestScripts/without_lease", false},
	{"help that nobody could read is success", "cmd/leasectl/root.go", "\t\terr = help.failed\n", "",
		"./cmd/leasectl", "TestClosedOutput", false},
	{"a token that is replaced at each refusal is shown without a pause", "proxyclient/exchange.go", "replaced && !x.replaced //", "replaced //",
		"./proxyclient", "TestTokenThatIsReplacedAgainAndAgain", false},
	{"a resize of a name counts as one of no pool", "pool/resize.go", "return l.Lease, ErrListed", "return Lease{}, ErrListed",
		"./proxyserver", "TestResize", false},
	{"a member of etcd that hangs holds up every request", "proxyserver/store/etcd/gateway.go", "case <-ctx.Done():", "case <-context.Background().Done():",
		"./proxyserver/store/etcd", "TestHangingAuthentication", false},
	{"^C does not reach the script around the command", "cmd/leasectl/root.go", "\t\t\tsyscall.Kill(0, d.sig)\n", "",
		"./cmd/leasectl", "TestInterruptedScript", false},
	{"a signal that leasectl forwarded is taken for a key", "trap/child/group.go", "= g.sent&(1<<status.Signal) == 0", "= true",
		"./trap/child", "TestKeysThatKillInAScript", false},
	{"who queues exits when a key ended it", "cmd/leasectl/exitcode.go", "&& child.OnTerminal()", "&& !child.OnTerminal()",
		"./cmd/leasectl", "TestInterruptedScript", false},
	{"the users of a lease that lingered were killed", "holder/sharedsettle.go", "\tcase lingered:\n", "\tcase lingered && false:\n",
		"./cmd/leasectl", "TestScripts/shared_linger", false},
	{"an optional lease fails for its list", "holder/acquire.go", "r.SharedList); err != nil {\n\t\t\treturn nil, err\n", "r.SharedList); err != nil {\n\t\t\treturn nil, invalidError{err}\n",
		"./cmd/leasectl", "TestScripts/scope_test", false},
}
