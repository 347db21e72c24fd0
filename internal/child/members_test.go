package child

import (
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/internal/testenv"
)

// Only live members of the group count.
func TestLiveMembers(t *testing.T) {
	out, w := testenv.Report(t)
	// One zombie (its parent execs and never waits), one that lives in a group
	// of its own, and two that live here.
	child := start(t, Command{Args: testenv.Shell(`sh -c 'exit 0' & sh -c 'echo $$; exec sleep 1000' & exec sleep 1000`), Stdout: w})
	grandchild := testenv.Atoi(t, out.Next())
	start(t, Command{Args: testenv.Shell("sleep 1000")})
	for {
		pids, err := liveMembers(child.Pid())
		if err != nil {
			t.Fatal(err)
		}
		if len(pids) == 2 { // the third may be on its way to its end
			if pids[0]+pids[1] != child.Pid()+grandchild {
				t.Errorf("members %v, want %d and %d", pids, child.Pid(), grandchild)
			}
			break
		}
	}
	stop(t, child, syscall.SIGKILL, 0)
	if pids, err := liveMembers(child.Pid()); err != nil || len(pids) > 0 {
		t.Errorf("members %v (%v) of a dead group", pids, err)
	}
}
