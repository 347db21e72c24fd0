// Package campaign has the tests that kill, stop and disturb real processes of leasectl, and judge
// afterwards from outside: by the log of the proxy, the files that are left, and what the commands
// said.
//
// A campaign (storm, order, locks, coalesce, shared, exec, failover, ways, races, parent death, identities) draws what it
// does from a seed, which is in its log, and has flags that make it longer: make nightly runs them
// at length. The tests of failpoints kill each operation at each place that the source names. The
// oracle of a test stands in the file of the test, or in the file beside it: orderOracle, heldModel
// (failoverhistory_test.go), checkShared, storm.check, campaignRound.expect, killedRun.balanced,
// versionOneRun.
package campaign

import (
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/etcd/etcdtest"
)

// TestMain lets the test binary stand in for lockfd and lockwitness.
func TestMain(m *testing.M) {
	testscript.Main(runOfTests{m}, map[string]func(){"lockfd": lockDescriptor, "lockwitness": lockWitness})
}

type runOfTests struct{ *testing.M }

func (r runOfTests) Run() int { return clitest.Run(func() int { return etcdtest.Run(r.M) }) }

// lockDescriptor is a program that locks an inherited descriptor of its shell, as flock(1) does:
// lockfd N -x, or -s for a shared lock. The lock stays with the shell's open file. Exit code 1: it
// is not free.
func lockDescriptor() {
	fd, err := strconv.Atoi(os.Args[1])
	how := map[string]int{"-x": syscall.LOCK_EX, "-s": syscall.LOCK_SH}[os.Args[2]]
	if err != nil || how == 0 || syscall.Flock(fd, how|syscall.LOCK_NB) != nil {
		os.Exit(1)
	}
}

// A world is a clitest.World. The files of the campaigns add methods to it.
type world struct {
	*clitest.World
	one *versionOne // the proxy, if that speaks version 1; nil: it is ours
}

// inUse returns how many leases of the pool one are held. A version-1 proxy has that pool only.
func (w *world) inUse() int {
	w.T.Helper()
	if w.one != nil {
		return len(w.one.heldNow())
	}
	return w.Pool("one").InUse
}

func newWorld(t *testing.T, program string, pools ...string) *world {
	t.Helper()
	return &world{World: clitest.NewWorld(t, program, pools...)}
}

func newWorldOf(t *testing.T, program string, serve ...string) *world {
	t.Helper()
	return &world{World: clitest.NewWorldOf(t, program, serve...)}
}

func newBareWorld(t *testing.T, program string) *world {
	t.Helper()
	return &world{World: clitest.NewBareWorld(t, program)}
}

// tooLong is longer than any command of a campaign takes.
const tooLong = 3 * time.Minute

// The exit codes that leasectl promises: leasectl help exit-codes.
const (
	exitFailure     = 1
	exitUnknownType = 2
	exitUnreachable = 69
	exitNoLease     = 75
	exitLost        = 76
	exitSuperseded  = 77
	exitExecFailure = 125
)
