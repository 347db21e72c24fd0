package campaign

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

var (
	sharedCommands = flag.Int("shared-commands", 150, "commands of TestSharedCampaign: 10000, for a whole campaign")
	sharedSeed     = flag.Uint64("shared-seed", 0, "seed of TestSharedCampaign; 0 takes one")
)

// sharedNames are the shared leases of the campaign: their flags, and how many uses a round may
// have.
var sharedNames = []struct {
	name  string
	flags []string
	bound int
}{
	{"A", []string{"--max-uses", "5+20%"}, 6},
	{"B", []string{"--linger", "1s", "--max-uses", "20"}, 22},
	{"C", nil, 1 << 30},
	{"D", []string{"--max-age", "1s", "--max-uses", "7+0%", "--linger", "2s"}, 7},
	{"E", []string{"--max-uses", "10", "--linger", "1s", "--grace-period", "200ms", "--service", stubborn}, 11},
}

// TestSharedCampaign lets commands share leases under four names at random moments. It kills a
// fifth of the commands, and stops others for a while.
//
//	go test -run TestSharedCampaign -shared-commands 10000 -timeout 1h ./cmd/leasectl/campaign
//
// It checks:
//   - no lease is used under two names, or more often than its bound;
//   - no lease ends while a command uses it that ended by itself;
//   - no command is refused;
//   - under E, which has a service, no command runs without it, and none of its processes is left;
//   - after recover nothing is held, and no file is left.
func TestSharedCampaign(t *testing.T) {
	t.Parallel()
	seed := *sharedSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d, %d commands", seed, *sharedCommands)
	w := newWorld(t, clitest.Build(t, ""), "one=6")
	random := rand.New(rand.NewPCG(seed, 0))
	runs := make([]*sharedRun, *sharedCommands)
	var group sync.WaitGroup
	free := make(chan struct{}, 16)
	for i := range runs {
		runs[i] = newSharedRun(random)
		free <- struct{}{}
		time.Sleep(time.Duration(random.Int64N(int64(6 * time.Millisecond)))) // a random moment
		group.Go(func() {
			runs[i].run(w)
			<-free
		})
	}
	group.Wait()
	w.Run(0, "recover")
	w.Await("what lingers to end", func() bool { return w.Pool("one").InUse == 0 })
	w.Run(0, "recover")
	w.noService()
	w.WantHeld()
	checkShared(t, w, runs)
}

// sharedRun is one command of the campaign.
type sharedRun struct {
	lease      int // index in sharedNames
	sleep      time.Duration
	kill, stop time.Duration // when; zero: never
	late       bool          // kill and stop count from when its command runs

	code       int
	generation string // "" if the command was killed before it printed it
	end        time.Time
}

func newSharedRun(random *rand.Rand) *sharedRun {
	r := &sharedRun{lease: random.IntN(len(sharedNames)), sleep: time.Duration(random.Int64N(int64(60 * time.Millisecond)))}
	r.late = random.IntN(2) == 0
	at := 1 + time.Duration(random.Int64N(int64(60*time.Millisecond)))
	switch random.IntN(10) {
	case 0, 1:
		r.kill = at
	case 2:
		r.stop = at
	}
	return r
}

func (r *sharedRun) run(w *world) {
	lease := sharedNames[r.lease]
	script := fmt.Sprintf("echo $LEASECTL_GENERATION; sleep %.3f; date +%%s.%%N", r.sleep.Seconds())
	if slices.Contains(lease.flags, "--service") {
		script = "echo ${RUNS_AS:?} >>ran; " + script
	}
	cmd := w.Command(shared(lease.name, lease.flags, script)...)
	var stdout, stderr bytes.Buffer
	disturb := sync.OnceFunc(func() {
		switch {
		case r.kill > 0:
			time.AfterFunc(r.kill, func() { cmd.Process.Kill() })
		case r.stop > 0:
			time.AfterFunc(r.stop, func() {
				cmd.Process.Signal(syscall.SIGSTOP)
				time.AfterFunc(50*time.Millisecond, func() { cmd.Process.Signal(syscall.SIGCONT) })
			})
		}
	})
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&stdout, writerFunc(disturb)), &stderr
	if err := cmd.Start(); err != nil {
		w.T.Error(err)
		return
	}
	if !r.late {
		disturb()
	}
	r.code = clitest.ExitCode(cmd.Wait())
	if r.code != 0 && r.kill == 0 {
		w.T.Errorf("%s: exit code %d\n%s", lease.name, r.code, &stderr)
	}
	words := strings.Fields(stdout.String())
	if len(words) > 0 {
		r.generation = words[0]
	}
	if len(words) > 1 {
		seconds, nanoseconds, _ := strings.Cut(words[1], ".")
		s, _ := strconv.ParseInt(seconds, 10, 64)
		n, _ := strconv.ParseInt(nanoseconds, 10, 64)
		r.end = time.Unix(s, n)
	}
}

// writerFunc is called for each write.
type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

var generationEnd = regexp.MustCompile(`time=(\S+) .*msg=(?:released|expired|broken) .* generations=\[(\d+)\]`)

// checkShared compares the output of the commands with the log of the proxy.
func checkShared(t *testing.T, w *world, runs []*sharedRun) {
	ends := make(map[string]time.Time)
	for line := range strings.Lines(w.Log.String()) {
		if m := generationEnd.FindStringSubmatch(line); m != nil {
			at, err := time.Parse(time.RFC3339Nano, m[1])
			if err != nil {
				t.Error(err)
			}
			ends[m[2]] = at.Add(time.Millisecond) // the log cuts the time to milliseconds
		}
	}
	uses, names := make(map[string]int), make(map[string]int)
	kills, killed := 0, 0 // of commands, and while they used a lease
	for _, r := range runs {
		if r.code == -1 {
			kills++
		}
		g := r.generation
		if g == "" {
			if r.code == 0 {
				t.Errorf("a command with %s said no generation", sharedNames[r.lease].name)
			}
			continue
		}
		if r.code != 0 {
			killed++
		}
		if name, seen := names[g]; seen && name != r.lease {
			t.Errorf("generation %s was used under %s and %s", g, sharedNames[name].name, sharedNames[r.lease].name)
		}
		names[g] = r.lease
		if uses[g]++; uses[g] > sharedNames[r.lease].bound {
			t.Errorf("generation %s of %s was used %d times", g, sharedNames[r.lease].name, uses[g])
		}
		if r.code == 0 && r.end.After(ends[g]) {
			t.Errorf("generation %s of %s ended %v before a command that used it", g, sharedNames[r.lease].name, r.end.Sub(ends[g]))
		}
	}
	t.Logf("%d leases for %d commands; %d KILLs, %d of them of a command with a lease", len(w.Ledger().Granted), len(runs), kills, killed)
	if killed == 0 {
		t.Error("no command was killed that used a lease")
	}
}
