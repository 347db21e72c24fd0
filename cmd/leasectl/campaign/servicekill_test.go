package campaign

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/process"
)

var serviceCommands = flag.Int("service-commands", 40, "commands that TestServices lets use a service that is killed at random: 5000, for a whole campaign")

// stubborn is a service of two processes. It adds their ids to the file pids, ignores TERM, and
// announces its own id in a variable.
const stubborn = `trap "" TERM; sleep 600 & echo $! >>pids; echo $$ >>pids; echo RUNS_AS=$$; while :; do sleep 0.02; done`

// serviceUser returns the arguments of an exec that shares a lease of type one with a service. Its
// command adds the variable of the service to the file ran before it runs script.
func serviceUser(service, script string, flags ...string) []string {
	flags = append([]string{"--grace-period", "100ms", "--service", service, "--service-timeout", "20s"}, flags...)
	return shared("A", flags, "echo $RUNS_AS >>ran; "+script)
}

// services returns the ids of the processes of all services.
func (w *world) services() (pids []int) {
	data, _ := os.ReadFile(w.Path("pids"))
	for _, word := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			w.T.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// noService checks that no process of a service is left, that no command ran with the variables of
// no service, and that no file is left.
func (w *world) noService() {
	w.T.Helper()
	for _, pid := range w.services() {
		w.Await(fmt.Sprintf("process %d of a service to end", pid), func() bool { return !process.Lives(pid) })
	}
	data, _ := os.ReadFile(w.Path("ran"))
	for _, pid := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		if n, err := strconv.Atoi(pid); len(data) > 0 && (err != nil || !slices.Contains(w.services(), n)) {
			w.T.Errorf("a command ran with the variable %q of no service", pid)
		}
	}
	os.Remove(w.Path("pids"))
	os.Remove(w.Path("ran"))
	w.Await("the keepers to end, and to leave nothing", func() bool {
		left, _ := filepath.Glob(w.Path("state/keepers/*"))
		shared, _ := filepath.Glob(w.Path("state/shared/*"))
		return len(left)+len(shared) == 0
	})
	w.nothingShared()
}

// TestServiceFailpoints kills, at each failpoint that concerns a service, the process that reaches
// it: the first user, the keeper, or the last user. The next command of the NAME gets the lease and
// a service of its own, or recover gives the lease back. Then no process of a service is left.
func TestServiceFailpoints(t *testing.T) {
	if testing.Short() {
		t.Skip("tens of seconds")
	}
	t.Parallel()
	program := clitest.Build(t, "failpoint")
	var points []string
	for _, point := range failpoints(t) {
		if strings.HasPrefix(point, servicePoint) {
			points = append(points, point)
		}
	}
	if len(points) < 10 {
		t.Errorf("only %d failpoints concern a service", len(points))
	}
	for name, w := range serviceWorlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w(t, program)
			points := points
			if w.one != nil { // the keeper gives the lease back, if no user does
				points = append(slices.Clone(points), "kept-releasing", "kept-answered")
			}
			for _, point := range points {
				for _, next := range []string{"exec", "recover"} {
					w.killService(point, next)
				}
			}
		})
	}
}

// killService kills a process at a failpoint, then runs next, and checks the result.
func (w *world) killService(point, next string) {
	t := w.T
	t.Helper()
	cmd := w.Command(serviceUser(stubborn, "true", "--verbose")...)
	cmd.Env = append(cmd.Env, "LEASECTL_FAILPOINT="+point)
	out, err := cmd.CombinedOutput()
	doubt := strings.HasPrefix(point, keptPoint) // the lease is unconfirmed, and the user may find it so or be killed, too
	killed := strings.HasPrefix(point, servicePoint+"user-")
	code := clitest.ExitCode(err)
	if !doubt && (code == -1) != killed || !slices.Contains([]int{-1, 0, exitLost, exitExecFailure}, code) {
		t.Errorf("%s: exit code %d\n%s", point, code, out)
	}
	if next == "recover" {
		if code := clitest.ExitCode(w.Command("recover").Run()); code != 0 && !(doubt && code == exitFailure) {
			t.Errorf("recover: exit code %d", code)
		}
	}
	w.Run(0, serviceUser(stubborn, "true", "--wait-timeout", "20s")...)
	w.endServices()
	if t.Failed() {
		t.Fatalf("killed at %s, then %s\n%s\n%s", point, next, out, w.Log)
	}
}

// serviceWorlds are the proxies with which services are tested. The pool one has one lease, unless
// the proxy speaks version 1.
var serviceWorlds = map[string]func(t *testing.T, program string) *world{
	"ours":      func(t *testing.T, program string) *world { return newWorld(t, program, "one=1") },
	"version 1": newVersionOneWorld,
}

// servicePoint is the prefix of failpoints that concern a service; those that begin with
// service-user- kill a user, the others the keeper.
const servicePoint = "service-"

// TestServices stops and kills services, their keepers and their users.
func TestServices(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	runServiceTests(t, program, []serviceTest{
		{"all killed", serviceAllKilled},
		{"users killed", serviceUsersKilled},
		{"last user killed while it stops", serviceLastKilled},
		{"first user stopped by TERM while it starts", serviceFirstTerminated},
		{"stopped, and its keeper killed", serviceStopped},
		{"keeper suspended", serviceKeeperSuspended},
		{"daemon", serviceDaemon},
		{"prints without end", serviceFlood},
		{"many wait for one that never comes", serviceManyWait},
		{"many", serviceMany},
		{"keepers, guards and services killed at random", serviceKilledAtRandom},
	})
}

// serviceTest is a test of services with any proxy.
type serviceTest struct {
	name string
	test func(*testing.T, *world)
}

// runServiceTests runs each test with each kind of proxy, and checks what is left.
func runServiceTests(t *testing.T, program string, tests []serviceTest) {
	for _, tt := range tests {
		for proxy, newWorld := range serviceWorlds {
			t.Run(tt.name+", "+proxy, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, program)
				tt.test(t, w)
				w.endServices()
			})
		}
	}
}

// endServices checks that after a recover neither a service nor a lease is left.
func (w *world) endServices() {
	w.T.Helper()
	if w.one != nil {
		w.Await("the keepers to end", func() bool {
			keepers, _ := w.serviceProcesses()
			return len(keepers) == 0
		})
		w.settleVersionOne()
		w.noService()
		return
	}
	w.Run(0, "recover")
	w.Await("the lease to be free", func() bool { return w.inUse() == 0 })
	w.Run(0, "recover")
	w.noService()
	w.WantHeld()
}

// startServiceUser starts a command that runs until it is killed, and returns when it runs.
func (w *world) startServiceUser(service string, flags ...string) *exec.Cmd {
	w.T.Helper()
	os.Remove(w.Path("up"))
	cmd := w.Command(serviceUser(service, "touch up; exec sleep 600", flags...)...)
	cmd.Stderr = w.Log
	if err := cmd.Start(); err != nil {
		w.T.Fatal(err)
	}
	w.Await("a user", func() bool { return clitest.Exists(w.Path("up")) })
	return cmd
}

// serviceKeeper returns the process id of the only keeper.
func (w *world) serviceKeeper() int {
	w.T.Helper()
	found, _ := w.serviceProcesses()
	if len(found) != 1 {
		w.T.Skipf("found %d keepers: this test needs /proc", len(found))
	}
	return found[0]
}

// All of leasectl is killed at once: the guard ends the group of the service.
func serviceAllKilled(t *testing.T, w *world) {
	user := w.startServiceUser(stubborn)
	keeper := w.serviceKeeper()
	syscall.Kill(keeper, syscall.SIGKILL)
	user.Process.Kill()
	user.Wait()
	for _, pid := range w.services() {
		w.Await("the service to end", func() bool { return !process.Lives(pid) })
	}
	if w.inUse() != 1 {
		t.Error("somebody gave the lease back: nobody was left")
	}
}

// All users are killed: the keeper stops the service, and gives the lease back.
func serviceUsersKilled(t *testing.T, w *world) {
	user := w.startServiceUser(stubborn)
	user.Process.Kill()
	user.Wait()
	deadBeforeRelease(t, w)
}

// The last user is killed while it waits for the end of the service.
func serviceLastKilled(t *testing.T, w *world) {
	user := w.Command(serviceUser(stubborn, "true", "--grace-period", "2s")...)
	if err := user.Start(); err != nil {
		t.Fatal(err)
	}
	w.Await("the service to be stopped", func() bool {
		out, _ := w.Command("status", "--shared", "A").Output()
		return strings.Contains(string(out), "over: was stopped")
	})
	user.Process.Kill()
	user.Wait()
	deadBeforeRelease(t, w)
}

// deadBeforeRelease waits until the lease is free, and checks that the service is dead by then.
func deadBeforeRelease(t *testing.T, w *world) {
	t.Helper()
	w.Await("the lease to be free", func() bool { return w.inUse() == 0 })
	for _, pid := range w.services() {
		if process.Lives(pid) {
			t.Error("the lease was given back before the service ended")
		}
	}
}

// The first user is asked to end while the service starts. No command runs, and the lease is given
// back.
func serviceFirstTerminated(t *testing.T, w *world) {
	user := w.Command(serviceUser("echo $$ >>pids; exec sleep 600", "true")...)
	if err := user.Start(); err != nil {
		t.Fatal(err)
	}
	w.Await("the service to start", func() bool { return len(w.services()) > 0 })
	user.Process.Signal(syscall.SIGTERM)
	if code := clitest.ExitCode(user.Wait()); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d", code)
	}
	deadBeforeRelease(t, w)
	if clitest.Exists(w.Path("ran")) {
		t.Error("a command ran without the service")
	}
}

// The group of the service is stopped, with its guard, and the keeper is killed. The last user kills
// the group before it gives the lease back.
func serviceStopped(t *testing.T, w *world) {
	user := w.startServiceUser(stubborn)
	keeper := w.serviceKeeper()
	out, _ := w.Command("status", "--shared", "A", "--output", "json").Output()
	_, after, _ := strings.Cut(string(out), `"group": `)
	digits, _, _ := strings.Cut(after, ",")
	group, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	syscall.Kill(-group, syscall.SIGSTOP)
	syscall.Kill(keeper, syscall.SIGKILL)
	if code := clitest.ExitCode(user.Wait()); code != exitLost {
		t.Errorf("exit code %d, want %d", code, exitLost)
	}
	deadBeforeRelease(t, w)
}

// The keeper is suspended for a while, in which the last user leaves.
func serviceKeeperSuspended(t *testing.T, w *world) {
	user := w.startServiceUser(stubborn)
	keeper := w.serviceKeeper()
	syscall.Kill(keeper, syscall.SIGSTOP)
	user.Process.Signal(syscall.SIGTERM)
	if code := clitest.ExitCode(user.Wait()); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d", code)
	}
	if w.inUse() != 1 {
		t.Error("the lease was given back although the service lives")
	}
	syscall.Kill(keeper, syscall.SIGCONT)
	deadBeforeRelease(t, w)
}

// A service whose first process ends lives on in its group.
func serviceDaemon(t *testing.T, w *world) {
	user := w.startServiceUser(`sleep 600 >&- 2>&- & echo $! >>pids; echo RUNS_AS=$!`)
	w.Run(0, serviceUser(`sleep 600 >&- 2>&- & echo $! >>pids; echo RUNS_AS=$!`, "true")...)
	if n := len(w.services()); n != 1 {
		t.Errorf("%d services were started, want 1", n)
	}
	user.Process.Signal(syscall.SIGTERM)
	user.Wait()
	deadBeforeRelease(t, w)
}

// The log of a service that prints without end is bounded, and the service is not held up.
func serviceFlood(t *testing.T, w *world) {
	user := w.startServiceUser(`echo $$ >>pids; echo RUNS_AS=$$; i=0; while :; do i=$((i+1)); echo "$i 0123456789012345678901234567890123456789012345678901234567890123456789"; done`)
	logs := func() (size int64) {
		found, _ := filepath.Glob(w.Path("state/shared/*.log"))
		for _, path := range found {
			info, err := os.Stat(path)
			if err == nil {
				size += info.Size()
			}
		}
		return size
	}
	var largest int64
	w.Await("the log to lose its older half", func() bool {
		size := logs()
		defer func() { largest = max(largest, size) }()
		return size < largest
	})
	if largest > 1<<20 {
		t.Errorf("the log had %d bytes", largest)
	}
	user.Process.Signal(syscall.SIGTERM)
	user.Wait()
	deadBeforeRelease(t, w)
}

// Many commands wait for a service that never becomes ready. They fail with the first, and do not
// start it one after the other.
func serviceManyWait(t *testing.T, w *world) {
	const service = "echo $$ >>pids; exec sleep 600"
	began := time.Now()
	var users []*exec.Cmd
	for range 6 {
		user := w.Command(serviceUser(service, "true", "--service-timeout", "3s")...)
		user.Stderr = w.Log
		if err := user.Start(); err != nil {
			t.Fatal(err)
		}
		users = append(users, user)
	}
	for _, user := range users {
		if code := clitest.ExitCode(user.Wait()); code != exitExecFailure {
			t.Errorf("exit code %d, want %d", code, exitExecFailure)
		}
	}
	if n := len(w.services()); n > 3 {
		t.Errorf("the service was started %d times in %v\n%s", n, time.Since(began), w.Log)
	}
}

// Many commands share few services, each at most so often.
func serviceMany(t *testing.T, w *world) {
	const commands, bound = 30, 10
	var users []*exec.Cmd
	for range commands {
		user := w.Command(serviceUser(stubborn, "sleep 0.05", "--max-uses", fmt.Sprintf("%d+0%%", bound), "--linger", "20s")...)
		user.Stderr = w.Log
		if err := user.Start(); err != nil {
			t.Fatal(err)
		}
		users = append(users, user)
	}
	for _, user := range users {
		if err := user.Wait(); err != nil {
			t.Errorf("a user: %v\n%s", err, w.Log)
		}
	}
	uses := make(map[string]int)
	data, _ := os.ReadFile(w.Path("ran"))
	for pid := range strings.FieldsSeq(string(data)) {
		uses[pid]++
	}
	if len(uses) != commands/bound {
		t.Errorf("uses of the services: %v, want %d services", uses, commands/bound)
	}
	for _, n := range uses {
		if n > bound {
			t.Errorf("uses of the services: %v, want at most %d", uses, bound)
		}
	}
}

// While commands come and go, keepers, guards and services are killed, and users, too. Each command
// runs with the variables of a service, or not at all.
func serviceKilledAtRandom(t *testing.T, w *world) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	done := make(chan struct{})
	kills := 0
	var killing sync.WaitGroup
	killing.Go(func() {
		kill := func(pid int) {
			if pid > 1 && process.Lives(pid) {
				syscall.Kill(pid, syscall.SIGKILL)
				kills++
			}
		}
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(random.Int64N(int64(700 * time.Millisecond)))):
			}
			keepers, users := w.serviceProcesses()
			services := w.services()
			switch {
			case n%4 == 0 && len(keepers) > 0:
				kill(keepers[random.IntN(len(keepers))])
			case n%4 == 1 && len(services) > 0:
				kill(services[len(services)-1])
			case n%4 == 2 && len(users) > 0:
				kill(users[random.IntN(len(users))])
			case n%4 == 3 && len(services) > 0:
				if group, err := syscall.Getpgid(services[len(services)-1]); err == nil && group != syscall.Getpgrp() {
					kill(group) // the guard
				}
				// Nobody ends the rest of the group if its keeper is killed before it has noticed.
				for end := time.Now().Add(clitest.Patience); time.Now().Before(end) && slices.ContainsFunc(services, process.Lives); {
					time.Sleep(5 * time.Millisecond)
				}
			}
		}
	})
	codes := make(map[int]int)
	var mu sync.Mutex
	var commands sync.WaitGroup
	for range 8 {
		commands.Go(func() {
			for range *serviceCommands / 8 {
				user := w.Command(serviceUser(stubborn, ": ${RUNS_AS:?}; sleep 0.3", "--max-uses", "5", "--linger", "1s")...)
				code := clitest.ExitCode(user.Run())
				mu.Lock()
				codes[code]++
				mu.Unlock()
			}
		})
	}
	commands.Wait()
	close(done)
	killing.Wait()
	for code := range codes {
		if !slices.Contains([]int{0, -1, exitLost, exitExecFailure}, code) {
			t.Errorf("exit codes %v", codes)
		}
	}
	t.Logf("%d KILLs; exit codes %v", kills, codes)
}

// serviceProcesses returns the keepers of services and the commands that use them.
func (w *world) serviceProcesses() (keepers, users []int) {
	for _, pid := range w.Processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		switch {
		case strings.Contains(string(line), "--service-of"):
			keepers = append(keepers, pid)
		case strings.Contains(string(line), "--shared"):
			users = append(users, pid)
		}
	}
	return keepers, users
}
