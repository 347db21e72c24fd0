package campaign

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// sharedRole is a command to kill, with the commands that run before it.
type sharedRole struct {
	name   string
	first  []string // flags of a command that holds the lease meanwhile; nil: none
	before []string // flags of a command that ends, or is killed at crash; nil: none
	crash  string
	args   []string // flags of the command to kill
	run    string   // the script that it runs; "": true
	points []string
}

var sharedRoles = []sharedRole{
	{name: "first", points: slices.Concat([]string{"round-begun", "round-granted", "round-held"}, acquirePoints)},
	{name: "joiner", first: []string{}, points: []string{"round-joined"}},
	{name: "last", points: slices.Concat([]string{"round-ending", "round-given-back"}, releasePoints)},
	{name: "last, linger", args: []string{"--linger", "20s"}, points: []string{"round-ending", "round-renewal-unsent", "round-renewal-answered"}},
	{name: "who comes in time", before: []string{"--linger", "20s"}, points: []string{"round-revived", "round-renewal-unsent", "round-renewal-answered", "round-joined"}},
	{name: "who finds none free", first: []string{"--max-uses", "1+500%"}, points: []string{"round-begun", "round-none-free", "round-joined"}},
	{name: "who settles", before: []string{}, crash: "round-granted", points: []string{"round-condemned", "round-settled", "release-unsent"}},
	{name: "who settles an ending", before: []string{}, crash: "round-ending", points: []string{"round-condemned", "round-settled", "release-unsent"}},
	{name: "renewer", run: "exec sleep 600", points: []string{"round-renewal-unsent", "round-renewal-answered"}},
}

// TestSharedFailpoints kills the users of a shared lease at every failpoint that concerns them, in
// a pool of one. The next command of the NAME gets the lease at once, or recover gives it back.
// Then nothing is held, no file is left, and each granted lease has ended once.
func TestSharedFailpoints(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of processes")
	}
	t.Parallel()
	w := newWorld(t, clitest.Build(t, "failpoint"), "one=1")
	reached := make(map[string]bool)
	for _, role := range sharedRoles {
		for _, point := range role.points {
			for _, next := range []string{"exec", "recover"} {
				w.killShared(role, point, next)
				reached[point] = true
				if t.Failed() {
					t.Fatalf("%s, killed at %s, then %s\n%s", role.name, point, next, w.Log)
				}
			}
		}
	}
	for _, point := range failpoints(t) {
		if strings.HasPrefix(point, sharedPoint) && !reached[point] {
			t.Errorf("failpoint %s: no role reaches it", point)
		}
	}
}

// killShared runs and kills one role, then runs next, and checks the result.
func (w *world) killShared(role sharedRole, point, next string) {
	t := w.T
	t.Helper()
	var first *exec.Cmd
	os.Remove(w.Path("up"))
	os.Remove(w.Path("go"))
	if role.first != nil {
		first = w.Command(shared("A", role.first, "touch up; until test -e go; do sleep 0.005; done")...)
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		w.Await("the first user", func() bool { return clitest.Exists(w.Path("up")) })
	}
	if role.before != nil {
		w.killAt(role.crash, shared("A", role.before, "true"))
	}
	run := role.run
	if run == "" {
		run = "true"
	}
	w.killAt(point, shared("A", role.args, run))
	if next == "recover" {
		w.Run(0, "recover")
		if first == nil {
			w.WantHeld() // not even for the time that a lease lingers
		}
	}
	w.Run(0, shared("A", []string{"--wait-timeout", "5s"}, "true")...)
	if first != nil {
		if err := os.WriteFile(w.Path("go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := first.Wait(); err != nil {
			t.Errorf("the first user: %v", err)
		}
	}
	w.Run(0, "recover")
	w.nothingShared()
	w.WantHeld()
}

// killAt runs a command that is killed at a failpoint; at "" it ends by itself.
func (w *world) killAt(point string, args []string) {
	w.T.Helper()
	want := 0
	cmd := w.Command(args...)
	if point != "" {
		cmd.Env, want = append(cmd.Env, "LEASECTL_FAILPOINT="+point), -1
	}
	if out, err := cmd.CombinedOutput(); clitest.ExitCode(err) != want {
		w.T.Fatalf("%v at %s: exit code %d, want %d\n%s", args, point, clitest.ExitCode(err), want, out)
	}
}

// shared returns the arguments of an exec that shares a lease of type one.
func shared(name string, flags []string, script string) []string {
	args := append([]string{"exec", "--type", "one", "--shared", name, "--parent-death", "KILL"}, flags...)
	return append(args, "--", "sh", "-c", script)
}

// nothingShared checks that no file of a shared lease is left.
func (w *world) nothingShared() {
	w.T.Helper()
	for _, pattern := range []string{"state/shared/*", "state/shared/.*", "state/shared-*", "state/intents/*"} {
		if left, _ := filepath.Glob(w.Path(pattern)); len(left) > 0 {
			w.T.Errorf("files are left: %v", left)
		}
	}
}

// startUsers starts n commands that share a lease of type one until a file go exists, and returns
// when all of them run.
func (w *world) startUsers(n int, flags ...string) (users []*exec.Cmd) {
	w.T.Helper()
	os.Remove(w.Path("go"))
	for i := range n {
		users = append(users, w.startUser(fmt.Sprintf("up%d", i), flags...))
	}
	return users
}

// startUser starts one command as startUsers does. The command makes the file up when it runs.
func (w *world) startUser(up string, flags ...string) *exec.Cmd {
	w.T.Helper()
	up = w.Path(up)
	os.Remove(up)
	flags = append([]string{"--grace-period", "1s", "--verbose"}, flags...)
	user := w.Command(shared("A", flags, "touch '"+up+"'; until test -e go; do sleep 0.01; done")...)
	user.Stderr = w.Log
	if err := user.Start(); err != nil {
		w.T.Fatal(err)
	}
	w.Await("a user", func() bool { return clitest.Exists(up) })
	return user
}
