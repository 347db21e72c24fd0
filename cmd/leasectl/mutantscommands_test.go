package main

// commandMutants are bugs of what commands say, refuse and return, and of calls that
// hold up others.
var commandMutants = []mutant{
	{"a short wait ends without a reason", "holder/ask.go", "case p.InUse >= limit:", "case false:",
		"./holder", "TestQueueOf", false},
	{"help that nobody could read is success", "cmd/leasectl/root.go", "\t\terr = help.failed\n", "",
		"./cmd/leasectl", "TestClosedOutput", false},
	{"a token that is replaced at each refusal is shown without a pause", "proxyclient/exchange.go", "replaced && !x.replaced //", "replaced //",
		"./proxyclient", "TestTokenThatIsReplacedAgainAndAgain", false},
	{"a resize of a name counts as one of no pool", "pool/resize.go", "return l.Lease, ErrListed", "return Lease{}, ErrListed",
		"./proxyserver", "TestResize", false},
	{"a member of etcd that hangs holds up every request", "proxyserver/store/etcd/gateway.go", "case <-ctx.Done():", "case <-context.Background().Done():",
		"./proxyserver/store/etcd", "TestHangingAuthentication", false},
}
