package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var mutants = flag.Bool("mutants", false, "put every bug of the list back, not only a few; see TestMutants")

// mutant is a bug that we once had, or nearly. old stands in file; if new replaces it, the test of
// package pkg must fail.
type mutant struct {
	name     string
	file     string
	old, new string
	pkg      string
	test     string
	quick    bool // belongs to every test run
}

var mutantList = []mutant{
	// The queue keeps its order over a restart.
	{"a restart forgets the queue", "pool/restore.go", "\t\tg.restoreWaiter(w)\n", "",
		"./pool", "TestRestoredQueue", true},
	{"nobody holds back who overtakes after a restart", "pool/lease.go", "HoldBack = 10 * time.Second", "HoldBack = 0 * time.Second",
		"./pool", "TestRestoredQueue", false},
	{"who is missed is granted leases", "pool/pool.go", "if r.active && !r.missed {", "if r.active {",
		"./pool", "TestRestoredQueue", false},
	{"each restart gives the absent a minute more", "pool/waiter.go", "if r.attached > 0 || r.missed {", "if r.attached > 0 {",
		"./pool", "TestFurtherRestartsGiveWaitersNoMoreTime", true},
	{"who has come back is missed still", "pool/waiter.go", "\t\tr.missed = false\n", "",
		"./pool", "TestRestoredQueue", false},
	{"a quote in an owner ends its text", "leaseapi/object/object.go", `c == '"' || `, "",
		"./leaseapi/object", "TestEncodedStrings", false},
	{"waiters are not stored", "proxyserver/store/record/queue.go", "if c.Waiter.Anonymous {", "if true {",
		"./proxyserver", "TestWaitersBecomeDurable", false},
	{"who was granted a lease waits in the store", "proxyserver/store/record/queue.go", "if !c.WasQueued {", "if true {",
		"./proxyserver", "TestWaitersBecomeDurable", false},
	{"a field of a record has another name than in the stores of before", "proxyserver/store/record/reports.go", `json:"tally"`, `json:"tallies"`,
		"./proxyserver/store/bolt", "TestFormat3", false},
	{"a shared lease has a field of another name", "lockfile/round.go", `json:"peak,omitempty"`, `json:"peaks,omitempty"`,
		"./lockfile", "TestFileFields", false},
	{"an arrival costs a commit", "proxyserver/commit.go", "if c.Kind == pool.Queued || c.Kind == pool.Joined {", "if b.arrived = min(b.arrived, c.Waiter.Arrived); false {",
		"./proxyserver", "TestWaitersBecomeDurable", false},
	{"a power cut removes a new directory", "proxyserver/store/bolt/create.go", "return sync(parent)", "return nil",
		"./proxyserver/store/bolt", "TestNewDirectoriesAreSynced", false},
	{"what is deleted and is not there takes the next record along", "proxyserver/store/bolt/table.go", "if !bytes.Equal(found, key) {", "if bytes.Compare(found, key) < 0 {",
		"./proxyserver/store/bolt", "TestDeleteOfNothing", false},
	{"a deleted record is counted", "proxyserver/store/bolt/table.go", "if !bytes.Equal(found, key) {\n\t\treturn nil\n\t}\n\tif err := t.uncount(key, old); err != nil {\n\t\treturn err\n\t}\n\treturn c.Delete()", "if !bytes.Equal(found, key) || old == nil {\n\t\treturn nil\n\t}\n\treturn c.Delete()",
		"./proxyserver/store/bolt", "TestCommitAndLoadQueue", false},
	{"an arrival waits for somebody else's commit", "proxyserver/term.go", "busyEvery = time.Second", "busyEvery = time.Hour",
		"./proxyserver", "TestWaitersBecomeDurable", false},
	{"a place is kept for as long as a lost connection goes unnoticed", "leaseapi/leaseapi.go", "PlaceKept = 60 * time.Second", "PlaceKept = 30 * time.Second",
		"./proxyserver", "TestPlaceOutlastsALostConnection", false},

	// A server's log and metrics, and a server on a suspended machine.
	{"a body that nobody reads may take for ever", "proxyserver/routes.go", "\tboundBody(rw, r)\n", "",
		"./proxyserver", "TestSlowBodyThatNobodyReads", false},
	{"a connection that cannot be accepted ends the server", "proxyserver/connlimit/connlimit.go", "return nil, passing(err)", "return nil, err",
		"./proxyserver", "TestConnectionsThatCannotBeAccepted", false},
	{"a connection that was refused keeps a server that is idle", "proxyserver/serve.go", "s.idle.Listener(l, listeners[i])\n\t\tif err != nil {\n\t\t\treturn errors.Join(err, closeAll(listeners), s.Close())\n\t\t}\n\t\tlisteners[i] = counted\n", "s.idle.Listener(l, l)\n\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t\tlisteners[i] = s.handler.connections.Listener(counted)\n",
		"./proxyserver", "TestIdleAfterARefusal", false},
	{"a server keeps its token after etcd asks for no passwords any more", "proxyserver/store/etcd/gateway.go", " && !asksForNobody(err) {", " {",
		"./proxyserver/store/etcd", "TestCredentials", false},
	{"status does not say that a pool is paused", "cmd/leasectl/statustable.go", "\t\tif p.Paused != \"\" {\n\t\t\trows", "\t\tif false {\n\t\t\trows",
		"./cmd/leasectl", "TestScripts/server_operate", false},
	{"a watch does not say that a pool is paused", "cmd/leasectl/statuswatch.go", "p.Paused != \"\" && p.Paused != old.Paused", "false",
		"./cmd/leasectl", "TestStatusWatch", false},
	{"a mistyped flag is not answered with the one that was meant", "cmd/leasectl/flags.go", "if len(typed) > 2 && ", "if false && ",
		"./cmd/leasectl", "TestScripts/usage_hints", false},
	{"a suspend is no stall", "proxyserver/clock.go", "\t\ts.slept.Store(int64(slept))\n", "",
		"./proxyserver", "TestSuspendedMachine", false},
	{"who comes back after a restart is queued again", "proxyserver/eventlog/lines.go", "if at.Waited > 0 {", "if false {",
		"./proxyserver", "TestLogOfAReturnedWaiter", false},
	{"the log has how a wait ended before that it began", "proxyserver/eventlog/eventlog.go", "\tl.WriteArrived() // else", "\t// else",
		"./proxyserver", "TestLogOfARequestIsInOrder", false},
	{"a backup must be read as fast as any answer", "proxyserver/answer.go", "; w.writeBy.Before(least) {", "; true {",
		"./proxyserver", "TestSlowBackup", false},
	{"a program for another machine is run as a script", "trap/child/command.go", " && isScript(path) {", " && path != shell {",
		"./trap/child", "TestStartErrors", false},
	{"a TTL that was cut is said with each answer", "holder/await.go", "granted, grant, grant.Deadline()\n", "granted, grant, grant.Deadline()\n\t\tl.h.sayGrant(grant, *r)\n",
		"./holder", "TestAgedGrantOfSlowProxy", false},
	{"a question about the proxy is asked of the advice", "holder/errors.go", "case advised || forgotten:", "case advised && false || forgotten:",
		"./holder", "TestAdvice", false},
	{"a killed exec that is forgotten leaves its handle", "holder/recover.go", "dead = in.Request", "_ = in.Request",
		"./cmd/leasectl", "TestScripts/recover_unreachable", false},
	{"a backup waits for ever for the rest of it", "proxyclient/backup.go", "time.AfterFunc(backupSilence,", "time.AfterFunc(24*time.Hour,",
		"./proxyclient", "TestBackup", false},
	{"a page of /pools makes the whole list", "proxyserver/poolpages.go", "left := limit + 1", "left := limit + 1<<20",
		"./proxyserver", "TestWaiterMemory", false},
	{"lines that were dropped are said in plain text", "cmd/leasectl/messenger.go", "if m.log != nil {", "if false {",
		"./cmd/leasectl", "TestMessengerDropsLogLines", false},

	// Frequent restarts do not prolong a lease that nobody renews.
	{"each restart gives the full TTL again", "pool/grant.go", `if l.Broken != "" || l.Extended {`, `if l.Broken != "" {`,
		"./pool", "TestFullTTLOnce", true},
	{"the first renewal after a restart is not durable", "pool/grant.go", "durable = durable || l.Extended\n", "\n",
		"./pool", "TestFullTTLOnce", false},
	{"the end after a restart is not stored", "proxyserver/store/record/record.go", `if l.Broken != "" || l.Extended {`, `if l.Broken != "" {`,
		"./proxyserver/store/bolt", "TestCommitAndLoadQueue", false},
	{"what a start gives is not durable", "proxyserver/term.go", "\tif t.durable() {\n\t\tt.open.saveClock", "\tif false {\n\t\tt.open.saveClock",
		"./proxyserver", "TestStartIsDurable", false},
	{"short lives do not count", "proxyserver/term.go", "firstSave = 20 * time.Millisecond", "firstSave = time.Second",
		"./proxyserver", "TestClockOfShortLives", false},
	{"the pace begins anew", "pool/restore.go", "p.rhythm = rhythm{start: paced.Start,", "p.rhythm = rhythm{start: -1 << 40,",
		"./pool", "TestPaceOutlivesARelease", false},
	{"a delayed release is put off by a stall", "pool/grant.go", "\tl.Expires, l.Extended = later(g.now, ttl), true\n", "\tl.Expires, l.Extended = later(g.now, ttl), true\n\tl.ReleaseAt = min(l.ReleaseAt, 1) * l.Expires\n",
		"./pool", "TestFullTTLOnce", false},

	// Stall, and lock delay.
	{"a stall is not noticed", "proxyserver/term.go", "t.keeping && late > lateBy", "late > never",
		"./proxyserver", "TestStall", false},
	{"a slow disk is taken for a stall", "proxyserver/term.go", "commits.Go(func() { t.awaitCommit(b) })", "t.awaitCommit(b)",
		"./proxyserver", "TestSlowDiskIsNoStall", false},
	{"a stall is made up for after what was due", "pool/stall.go", "\ts.compensate()\n", "\ts.Advance(s.now)\n\ts.compensate()\n",
		"./pool", "TestStallComesBeforeWhatIsDue", true},
	{"what is broken has no lock delay", "pool/grant.go", "why != Released && delay > 0", "why == Expired && delay > 0",
		"./pool", "TestLockDelay", true},
	{"what is released has a lock delay", "pool/grant.go", "why != Released && delay > 0", "delay > 0",
		"./pool", "TestLockDelay", false},
	{"units under a lock delay are free", "pool/room.go", "return p.heldUnits + p.locked", "return p.heldUnits",
		"./pool", "TestLockDelayOverAReconfiguration", false},
	{"a lock delay is not durable", "pool/restore.go", "\t\tg.restoreLock(sl, g.pool(l.Type), l)\n", "",
		"./pool", "TestLockDelay", false},

	// Several servers on etcd.
	{"a late copy of a commit counts", "proxyserver/store/etcd/store.go", "l.leaderKept(), {Key: key, Target: compareMod, ModRevision: l.metaRevision}", "l.leaderKept()",
		"./proxyserver/store/etcd", "TestDelayedCopy", true},
	{"a commit of a deposed leader counts", "proxyserver/store/etcd/store.go", "l.leaderKept(), {Key: key, Target: compareMod", "{Key: key, Target: compareMod",
		"./proxyserver/store/etcd", "TestDeposed", false},
	{"a leader that was deposed while it loads finds damage", "proxyserver/store/etcd/store.go", "cmp.Or(l.client.retry(l.ended, l.rewrite), err)", "cmp.Or(err, l.client.retry(l.ended, l.rewrite))",
		"./proxyserver/store/etcd", "TestDeposedWhileItLoads", false},
	{"an etcd without space answers again with each read", "proxyserver/store/etcd/elector.go", "\t\t\tttl, err := e.understand(s)\n", "\t\t\te.noteNoTrouble()\n\t\t\tttl, err := e.understand(s)\n",
		"./proxyserver/store/etcd", "TestNoSpaceIsToldOnce", false},
	{"a step of a batch is divided after ids that were forgotten", "proxyserver/store/etcd/table.go", "return len(t.changed)+len(t.ended.forgotten) == 0", "return len(t.changed) == 0",
		"./proxyserver/store/etcd", "TestForgottenIdsDivideNoStep", false},
	{"a store in etcd that lost its meta gets another", "proxyserver/store/etcd/store.go", "\t\tl.meta = metaRecord{Format: format, ID: newNonce()}\n", "\t\tl.meta = metaRecord{Format: format, ID: newNonce()}\n\t\t_ = l.write(nil)\n",
		"./proxyserver/store/etcd", "TestMetaIsLost", false},
	{"a server that is stopped while it takes the lead keeps it", "proxyserver/store/etcd/elector.go", "if err != nil && len(e.own) > 0 {", "if false {",
		"./proxyserver/store/etcd", "TestUnusedLeadIsGivenUp", false},
	{"a standby that is stopped complains about etcd", "proxyserver/store/etcd/client.go", "\tif ctx.Err() != nil {\n\t\treturn\n\t}\n", "",
		"./proxyserver/store/etcd", "TestStopIsNoTrouble", false},
	{"a store in etcd is where another deletes its keys", "proxyserver/store/etcd/url.go", ` || part == "standby"`, "",
		"./proxyserver/store/etcd", "TestParseURL", false},
	{"a lost answer is a failure", "proxyserver/store/etcd/store.go", "case bytes.Equal(there.Value, meta):", "case false:",
		"./proxyserver/store/etcd", "TestLostAnswers", false},
	{"a lease of etcd keeps the lead", "proxyserver/store/etcd/lead.go", "within(ctx, l.client.ttl, l.rewrite)", `within(ctx, l.client.ttl, func(ctx context.Context) error {
				began := suspend.SinceBoot()
				lease := map[string]string{"ID": "1", "TTL": "1"}
				if err := l.client.call(ctx, "/v3/lease/keepalive", lease, &struct{}{}); err != nil {
					return err
				}
				l.extend(began)
				return nil
			})`,
		"./proxyserver/store/etcd", "TestOnlyTransactionsKeepTheLead", false},
	{"a lead is valid from the answer on", "proxyserver/store/etcd/lead.go", "\tl.extend(began)\n\treturn nil\n", "\tl.extend(max(began, suspend.SinceBoot()))\n\treturn nil\n",
		"./proxyserver/store/etcd", "TestValidFromTheStart", false},
	{"a lead does not lapse", "proxyserver/store/etcd/lead.go", "if l.remaining() <= 0 {", "if false {",
		"./proxyserver/store/etcd", "TestCutOff", false},
	{"a server goes on without leases when etcd has lost them", "proxyserver/store/etcd/elector.go", "return ttl, e.stillThere(\"\")", "return ttl, nil",
		"./proxyserver/store/etcd", "TestStoreIsGone", false},
	{"a standby goes by its own TTL", "proxyserver/store/etcd/elector.go", "ttl = cmp.Or(r.TTL, e.ttl)", "",
		"./proxyserver/store/etcd", "TestShorterTTLOfAStandby", false},
	{"a token that is older than the users is kept", "proxyserver/store/etcd/gateway.go", `"revision of auth store is old", `, "",
		"./proxyserver/store/etcd", "TestCredentialsAfterAChangeOfUsers", false},
	{"a changed password of etcd ends the lead", "proxyserver/store/etcd/gateway.go", `, "authentication failed"}`, "}",
		"./proxyserver/store/etcd", "TestChangedPassword", false},
	{"a second change of the users of etcd ends the lead", "proxyserver/store/etcd/gateway.go", "e.Code == codeInvalid && !unauthenticated(err)", "e.Code == codeInvalid",
		"./proxyserver/store/etcd", "TestUsersChangeTwice", false},
	{"a standby does not wait for a TTL", "proxyserver/store/etcd/elector.go", "suspend.SinceBoot()-since >= ttl", "suspend.SinceBoot()-since >= 0*ttl",
		"./proxyserver/store/etcd", "TestCutOff", false},
	{"a lead that was given up is waited for", "proxyserver/store/etcd/client.go", "[]operation{remove(key)}", "[]operation{get(key)}",
		"./proxyserver/store/etcd", "TestHandOver", false},
	{"etcd keeps what was known of a lease before a late report", "proxyserver/store/etcd/table.go", "if t.reported {", "if false {",
		"./proxyserver/store/etcd", "TestReportOfAnEndedLease", false},
	{"a new leader forgets an id whose record is out of its order", "proxyserver/store/etcd/table.go", "\t\t\ti := len(snap.Ended) - 1\n", "\t\t\ti := len(snap.Ended) - 1\n\t\t\tt.ended.forget(key)\n",
		"./proxyserver/store/etcd", "TestEndedStaysRemembered", false},
	{"the first of the ended ids in a key is looked for elsewhere", "proxyserver/store/etcd/ended.go", "b.first <= key && key", "b.first < key && key",
		"./proxyserver/store/etcd", "TestReportOfAnEndedLease", false},
	{"a store with both records of a late report is refused", "proxyserver/store/etcd/table.go", "older := again && at < last", "older := again && at > last",
		"./proxyserver/store/etcd", "TestReportOfAnEndedLease", false},
	{"whether a server leads is not asked after the answer was made", "proxyserver/term.go", "return t.stillLeads()", "return nil",
		"./proxyserver", "TestAnswersOfALeadThatHasLapsed", true},
	{"pools that change while a term begins are lost", "proxyserver/server.go", "\ts.poolsMu.Lock() // or the term might miss a change that found no leader\n\tdefer s.poolsMu.Unlock()\n", "",
		"./proxyserver", "TestPoolsOfATermThatBegins", false},
	{"the page of a standby says that its state is in memory only", "proxyserver/handler.go", "return h.election != nil || h.term().durable()", "return h.term().durable()",
		"./proxyserver", "TestPageOfAStandby", false},
	{"a server that lost the lead ends", "proxyserver/election.go", "case err != nil && !errors.Is(err, store.ErrNotLeader):", "case err != nil:",
		"./proxyserver", "TestLeadsInTurns", false},
	{"an election ends a wait", "proxyclient/patience.go", "case o.notLeader() && !p.end.IsZero():", "case false:",
		"./proxyclient", "TestElection", false},
	{"nobody is told that no server leads", "proxyclient/patience.go", "p.onTrouble(o.failure(), wallOf(p.leaderless))", "p.onTrouble(nil, time.Time{})",
		"./proxyclient", "TestElection", false},
	{"what a standby refused may have been granted", "proxyclient/classify.go", "case o.standby():", "case false:",
		"./proxyclient", "TestElection", false},
	{"a server that has just lost the lead says that it did nothing", "proxyserver/term.go", "&notLeaderError{election: t.election, cause: err}", "&notLeaderError{election: t.election, cause: err, standby: true}",
		"./proxyserver", "TestLeadsInTurns", false},
	{"two stores are one proxy", "proxyclient/client.go", "*before != id && c.servers.several()", "false",
		"./proxyclient", "TestTwoStores", false},
	{"a call that does not wait asks one server only", "proxyclient/exchange.go", "return x.tried < len(x.client.servers.bases)", "return false",
		"./proxyclient", "TestFindsTheLeader", false},

	// exec.
	{"the grace period outlasts the lease", "supervisor/attempt.go", "grace = max(0, min(grace, ttl/2-StopMargin))", "_ = ttl",
		"./cmd/leasectl", "TestGraceWithinGrantedTTL", false},
	{"a command that ended by itself was stopped for its lease", "supervisor/watch.go", "\tif !w.command.Stop(sig, grace) {", "\tif w.command.Stop(sig, grace); false {",
		"./supervisor", "TestEndBeforeLoss", false},
	{"a command that ended by itself was stopped by a signal", "supervisor/watch.go", "\tif !w.command.Stop(sig, w.signalGrace) {", "\tif w.command.Stop(sig, w.signalGrace); false {",
		"./supervisor", "TestEndBeforeSignal", false},
	{"a command that ended during a suspension is stopped", "trap/child/group.go", " || g.pins == 0 && g.leaderEnded()", "",
		"./trap/child", "TestStopAfterTheEnd", false},
	{"a second TERM does not reach the command", "supervisor/watch.go", "\t\tw.command.Signal(sig)\n\t\treturn\n", "\t\treturn\n",
		"./cmd/leasectl", "TestForwardedSignals", false},
	{"a nested exec has as long as its outer one", "supervisor/attempt.go", "outer-min(nestedMargin, outer/2)", "outer",
		"./supervisor", "TestGraceAfterSignal", false},
	{"a nested exec does not learn when its outer one ends", "supervisor/attempt.go", "graceVariable, grace.String()", "graceVariable, \"\"",
		"./cmd/leasectl", "TestScripts/exec_nested", false},
	{"what is wrong with a handle is that it has no type", "cmd/leasectl/acquire.go", `case o.typ == "" && !errors.Is(err, fs.ErrNotExist):`, `case o.typ == "" && errors.Is(err, fs.ErrInvalid):`,
		"./cmd/leasectl", "TestScripts/newer", false},
	{"commands whose clocks differ share a lease", "holder/machine_linux.go", "clocks != firstTimeSpace {", "clocks == \"\" {",
		"./cmd/leasectl", "TestSharedBetweenTimeNamespaces", false},
	{"a request in a handle that was written halfway is forgotten", "holder/phases.go", "tx.Record, l.mayBeInHandle = l.record, true", "tx.Record = l.record",
		"./holder", "TestHandleWrittenHalfway", false},
	{"an old answer is taken for a lease", "holder/await.go", "if err == nil && l.aged() {", "if false {",
		"./holder", "TestAgedGrant", false},
	{"a grant that has ended is given back", "holder/await.go", "\t\tl.phase, l.grant = enqueued, nil\n", "",
		"./holder", "TestRollback", false},
	{"the wait begins anew with each request", "holder/await.go", "\tr.WaitTimeout = max(0, r.WaitTimeout-proxyclient.Now().Sub(begun))\n", "\t_ = begun\n",
		"./holder", "TestWaitLeftForAskingAnew", false},
	{"who gives a lease back has lost it", "holder/keep.go", "if denied && mayBeReleased(lost.Lost) && l.releasedByOthers(lost.Lost) {", "if false {",
		"./holder", "TestKeepGivenBack", false},

	// Files.
	{"names are written before their record", "lockfile/plan.go", "{replace(record, data), replace(names, formatNames(to.NamesInFile()))}", "{replace(names, formatNames(to.NamesInFile())), replace(record, data)}",
		"./lockfile", "TestKilledBetweenSteps", false},
	{"a page that the disk does not give is damaged", "proxyserver/store/bolt/pages.go", " || errors.Is(err, errUnread)", "",
		"./proxyserver/store/bolt", "TestUnreadPages", false},
	{"half a line of the history spoils the next", "lockfile/history.go", `append([]byte{'\n'}, o.End()...)`, `append(o.End(), '\n')`,
		"./lockfile", "TestHistoryLog", false},
	{"a handle with the name of a temporary file is swept", "lockfile/sweep.go", "os.Lstat(path + jsonSuffix); err == nil {", "os.Lstat(path + jsonSuffix); false && err == nil {",
		"./lockfile", "TestSweepKeepsAHandle", false},
	{"a grant with the longest paths is forgotten", "lockfile/history.go", "io.LimitReader(f, maxFile)", "io.LimitReader(f, historyFile)",
		"./lockfile", "TestHistoryOfALongGrant", false},
	{"a full disk keeps a lease from being given back", "holder/releaseowed.go", "err != nil && !again", "err != nil && (!again || again)",
		"./cmd/leasectl", "TestScripts/full_disk", false},
	{"a store that cannot be opened is any failure", "cmd/leasectl/exitcode.go", "\t{store.ErrOpen, exitStore},\n", "",
		"./cmd/leasectl", "TestScripts/newer_store", false},
	{"a pause of an unknown type is any failure", "proxyclient/operate.go", "if errors.Is(err, ErrUnknownType) {", "if false {",
		"./cmd/leasectl", "TestScripts/server_operate", false},
	{"a lease that is over is released later", "proxyserver/release.go", "lost && delay > 0 {", "lost && false {",
		"./cmd/leasectl", "TestScripts/late_release", false},
	{"another protocol is waited for", "proxyclient/answer.go", "if r.StatusCode == http.StatusSwitchingProtocols {", "if false {",
		"./proxyclient", "TestFault", false},
	{"JSON that breaks off is an answer", "proxyclient/answer.go", "case breaksOff(body):", "case false:",
		"./proxyclient", "TestPartThatSeemsWhole", false},
	{"an unknown type waits for what the proxy can do", "proxyclient/unwind.go", "\t\tctx, cancel := context.WithTimeout(ctx, cancelTime)\n\t\tdefer cancel()\n\t\tcan, _", "\t\tcan, _",
		"./proxyclient", "TestUnknownTypeOfSilentProxy", false},
	{"a keeper of a replaced handle leaves its lease", "holder/keeper.go", "return k.orphaned(), nil", "return false, nil",
		"./cmd/leasectl", "TestKeeperOfReplacedHandle", false},
	{"a release that is under way is a loss", "holder/keep.go", "case begun || ", "case begun && false || ",
		"./holder", "TestKeepWhileGivenBack", false},
	{"a release that the handle still owes is a loss", "holder/keep.go", "|| err == nil && owes(r, l.record.RequestID):", ":",
		"./holder", "TestKeepWhileGivenBack", false},
	{"who removes a handle has given its lease back", "holder/keep.go", "return !l.h.stillToGiveBack(l.record)", "return true",
		"./holder", "TestKeepCleaned", false},
	{"a release that this machine could not note is a loss", "holder/keep.go", "return errors.Is(err, fs.ErrNotExist) &&", "return err == nil &&",
		"./holder", "TestKeepCleaned", false},
	{"a command that removes its handle keeps its lease", "holder/giveback.go", "return h.giveBackWithoutHandle(ctx, r)", "return nil, nil",
		"./cmd/leasectl", "TestScripts/exec_cleaned", false},
	{"a command that replaces its handle keeps its lease", "holder/giveback.go", "case isUnread(err) && safeToReleaseAgain(r):", "case false:",
		"./cmd/leasectl", "TestScripts/exec_cleaned", false},
	{"a shared lease of which the handle was replaced stays", "holder/shareduse.go", "case err != nil: // something else is at its path\n\t\treturn h.giveBackWithoutHandle(ctx, l.record)", "case err != nil: // something else is at its path\n\t\treturn nil, err",
		"./cmd/leasectl", "TestScripts/exec_cleaned", false},
	{"what is reacquired into a shared lease stays", "holder/shareduse.go", "return !bareHandle(r) }", "return l.isToGiveBack(r) }",
		"./cmd/leasectl", "TestScripts/shared", false},
	{"a handle that cannot be read keeps others from being settled", "holder/settle.go", "if !isUnread(err) {", "if true {",
		"./cmd/leasectl", "TestScripts/exec_cleaned", false},
	{"a release that failed is not made good at the end of exec", "holder/owed.go", "|| r.State == lockfile.StateReleasing && ", "|| false && ",
		"./holder", "TestReleaseAfterAFailedOne", true},
	{"a keeper leaves its owner when the handle is cleaned up", "holder/keeper.go", "return k.h.stillToGiveBack(k.record)", "return false",
		"./cmd/leasectl", "TestKeeperOutlivesItsHandle", false},
	{"the socket of a killed keeper is as old as its start", "holder/keeper.go", "\t\t\tk.h.keepers.touch(k.request)\n", "",
		"./holder", "TestAgeOfAKeepersSocket", false},
	{"a keeper leaves its owner when the handle cannot be read", "holder/keeper.go", "\t\treturn true\n\t}\n\tif k.holds(r) {", "\t\treturn false\n\t}\n\tif k.holds(r) {",
		"./holder", "TestKeeperOfAnUnreadableHandle", false},
	{"exec releases a name again that may be another's", "holder/lease.go", "return namesOnly(o.Leases) && !o.Unsent", "return false",
		"./holder", "TestReleaseAfterAFailedOneOfVersionOne", true},
	{"reacquire releases a name again that may be another's", "holder/phases.go", "releaseCertainOwed(ctx, tx)", "releaseOwed(ctx, tx, l.h.toItsProxy)",
		"./cmd/leasectl", "TestScripts/reacquire_unconfirmed", false},
	{"a keeper does not give back what it has no handle of", "holder/keeper.go", "k.h.giveBackOwn(ctx, k.handle, func(r lockfile.Record) bool { return holdsOrOwes(r, k.request) }, k.record)", "k.h.giveBack(ctx, k.handle, func(r lockfile.Record) bool { return holdsOrOwes(r, k.request) })",
		"./cmd/leasectl", "TestKeeperOutlivesItsHandle", false},
	{"a field of a record is not written", "lockfile/record.go", "\tto.StringIf(\"store\", r.Store)\n", "",
		"./lockfile", "TestEncodedFields", false},

	// One lease of many commands.
	{"a round has one use more than its bound", "lockfile/round.go", "r.Uses >= r.Bound", "r.Uses > r.Bound",
		"./lockfile", "TestRoundExpires", true},
	{"a use counts only once its process lives", "lockfile/shared.go", "\tr.Uses++\n\tr.Users = append(r.Users, r.Uses)\n", "\tr.Uses = len(r.Users) + 1\n\tr.Users = append(r.Users, r.Uses)\n",
		"./cmd/leasectl", "TestScripts/shared_uses", false},
	{"a shared lease is given back under its users", "holder/shareduse.go", "if r == nil || tx.HasLiveUser(r, u.use.N) {", "if r == nil {",
		"./cmd/leasectl", "TestScripts/shared", false},
	{"a shared lease reports the memory of its last user only", "holder/shareduse.go", "\t\t\tu.h.endings.mergePeak(r)\n", "",
		"./cmd/leasectl", "TestScripts/units", false},
	{"lease__acquire says a count that nobody told it", "scripts/client.sh", "lease__count='' lease__scope", "lease__count=1 lease__scope",
		"./cmd/leasectl", "TestScripts/units", false},
	{"a newcomer waits for a dead one that was acquiring", "holder/sharedlease.go", "return !l.file.Alive(r.ID, r.By)", "return false",
		"./cmd/leasectl", "TestSharedFailpoints", false},
	{"nobody renews for a user that is stopped", "holder/sharedkeep.go", "return min(half, (turn+k.limit())/2) + k.jitter", "return min(half, turn) + time.Hour",
		"./cmd/leasectl", "TestSharedUsers/stopped_renewer", false},
	{"the margin is used though a lease is free", "holder/sharedchoice.go", "(newest.Closed(l.now()) || renews(*newest))", "newest.Closed(l.now())",
		"./cmd/leasectl", "TestScripts/shared_uses", false},
	{"a newcomer joins whatever it wants otherwise", "holder/sharedchoice.go", "\tconflict := l.conflict(*newest)\n", "\tvar conflict error\n",
		"./cmd/leasectl", "TestScripts/shared_conflict", false},
	{"a command within a use is a newcomer", "holder/sharednested.go", "words[0] != l.key()", "true",
		"./cmd/leasectl", "TestScripts/shared_nested", false},
	{"a job gives back what others share", "holder/phases.go", "h.ownerOf(r.owner)", "h.ownerOf(\"\")",
		"./cmd/leasectl", "TestScripts/shared", false},
	{"a lease that lingers is given back by recover", "holder/sharedsettle.go", "if r.Lingers && ", "if false && ",
		"./cmd/leasectl", "TestScripts/shared_linger", false},
	{"a signal leaves a lease that was renewed to be joined", "holder/sharedbegin.go", "case err == nil && werr == nil:", "case ctx.Err() == nil && err == nil && werr == nil:",
		"./holder", "TestSignalAfterTheRenewalOfALingeringRound", false},
	{"a lease that somebody gave back is joined", "holder/sharedlease.go", "|| givenBack(r) }", "}",
		"./cmd/leasectl", "TestSharedUsers/given_back", false},
}

// Each bug of the list is caught: if it is put back, the named test fails. A run without -mutants
// checks that for a few bugs only; for the others it checks that they could still be put back. No
// file in the tree changes: the compiler reads the mutated file instead of the original (see
// -overlay in go help build).
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, m := range slices.Concat(mutantList, poolMutants, wireMutants, pageMutants, adaptMutants, distMutants, costMutants, commandMutants) {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			path, err := filepath.Abs(filepath.Join("../..", m.file))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(text, []byte(m.old)); n != 1 {
				t.Fatalf("%s has %q %d times, want once", m.file, m.old, n)
			}
			if !*mutants && (!m.quick || testing.Short()) {
				return
			}
			m.mustBeCaught(t, path, bytes.Replace(text, []byte(m.old), []byte(m.new), 1))
		})
	}
}

func (m mutant) mustBeCaught(t *testing.T, path string, mutated []byte) {
	dir := t.TempDir()
	replacement, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: replacement}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{replacement: mutated, overlay: replace} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-count=1", "-vet=off", "-timeout=5m", "-run", "^"+regexp.QuoteMeta(m.test)+"$", m.pkg)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay)) // also for builds within the test
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("%s does not notice it", m.test)
	} else if !bytes.Contains(out, []byte("--- FAIL: "+m.test)) {
		t.Errorf("%s did not fail, but something else did: %v\n%s", m.test, err, out)
	}
}
