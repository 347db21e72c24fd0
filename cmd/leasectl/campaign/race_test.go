package campaign

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/leaseapi"
)

var (
	raceRounds = flag.Int("race-rounds", 120, "rounds of TestRaces: thousands, for a whole hunt")
	raceSeed   = flag.Uint64("race-seed", 0, "seed of TestRaces; 0 takes one")
)

// TestRaces runs acquire, reacquire, exec and release on one handle at random moments, and kills
// many of these processes at random moments. Meanwhile a bystander takes leases of the same pool.
// Nothing ever ends a lease of the bystander. After recover and a last release nothing is held and
// nobody waits.
//
//	go test -run TestRaces -race-rounds 5000 ./cmd/leasectl/campaign
func TestRaces(t *testing.T) {
	t.Parallel()
	seed := *raceSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d, %d rounds", seed, *raceRounds)
	w := newWorld(t, clitest.Build(t, ""), "install=2")
	handle := w.Path("h")
	stop := make(chan struct{})
	bystander := make(chan int)
	go func() { bystander <- w.bystand(stop) }()

	random := rand.New(rand.NewPCG(seed, 0))
	var killed, ended int
	within := 10 * time.Millisecond // time of a KILL at most; adapts, so that half of the KILLs hit a living command
	for range *raceRounds {
		var group sync.WaitGroup
		var mu sync.Mutex
		most := int64(within)
		for range 2 + random.IntN(2) {
			args := raceArguments(random, handle)
			before := time.Duration(random.Int64N(most))
			kill := time.Duration(random.Int64N(most))
			if random.IntN(2) == 0 {
				kill = 0
			}
			group.Go(func() {
				time.Sleep(before) // a random moment, not a wait for something
				was := w.killAfter(kill, args)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case was:
					killed++
					within += within / 8
				case kill > 0:
					within -= within / 8
				}
				if !was {
					ended++
				}
			})
		}
		group.Wait()
		if t.Failed() {
			break
		}
	}
	close(stop)
	turns := <-bystander
	w.Run(0, "recover")
	w.Run(0, "release", "--handle", handle)
	w.Await("the requests of the killed to leave the queue", func() bool { return w.Pool("install").Waiting == 0 })
	w.WantHeld()
	if pool := w.Pool("install"); pool.InUse != 0 {
		t.Errorf("%d are held\n%s", pool.InUse, w.Log)
	}
	if left, _ := filepath.Glob(w.Path("state/intents/*")); len(left) > 0 {
		t.Errorf("journal entries are left: %v", left)
	}
	if left, _ := filepath.Glob(handle + "*"); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
	granted := len(w.Ledger().Granted)
	t.Logf("%d commands killed, %d ended by themselves; %d leases granted; %d turns of the bystander", killed, ended, granted, turns)
	if killed == 0 || ended == 0 || turns == 0 || granted <= turns {
		t.Error("there was no race")
	}
}

// raceArguments returns a random command on the handle.
func raceArguments(random *rand.Rand, handle string) []string {
	acquire := []string{"--type", "install", "--handle", handle, "--wait-timeout", "1s"}
	switch random.IntN(7) {
	case 0:
		return append([]string{"acquire"}, acquire...)
	case 1, 2:
		return append([]string{"reacquire"}, acquire...)
	case 3:
		return append(append([]string{"exec", "--parent-death", "KILL"}, acquire...), "--", "true")
	case 4:
		return []string{"release", "--handle", handle, "--delay", "5ms"}
	}
	return []string{"release", "--handle", handle}
}

// killAfter runs a command. If d is not 0 and the command has not ended after d, killAfter kills
// it.
func (w *world) killAfter(d time.Duration, args []string) (killed bool) {
	cmd := w.Command(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		w.T.Error(err)
		return false
	}
	if d > 0 {
		timer := time.AfterFunc(d, func() { cmd.Process.Kill() })
		defer timer.Stop()
	}
	switch code := clitest.ExitCode(cmd.Wait()); code {
	case -1:
		return true
	case 0, exitFailure, exitNoLease, exitExecFailure, exitLost: // held, superseded, full, released under a child
		if strings.Contains(stderr.String(), "panic") || strings.Contains(stderr.String(), "broken") {
			w.T.Errorf("leasectl %v: %s", args, &stderr)
		}
	default:
		w.T.Errorf("leasectl %v: exit code %d: %s", args, code, &stderr)
	}
	return false
}

// bystand takes a lease, checks that nobody ends it, and gives it back, again and again until stop
// is closed. It returns how often.
func (w *world) bystand(stop <-chan struct{}) (turns int) {
	for {
		select {
		case <-stop:
			return turns
		default:
		}
		turns++
		handle := w.Path(fmt.Sprintf("bystander-%d", turns))
		cmd := w.Command("acquire", "--type", "install", "--handle", handle, "--owner", "bystander")
		if err := cmd.Run(); err != nil {
			w.T.Errorf("bystander: acquire: %v", err)
			return turns
		}
		for range 3 {
			if !w.bystanderHolds() {
				w.T.Errorf("the lease of a bystander ended\n%s", w.Log)
				return turns
			}
		}
		cmd = w.Command("release", "--handle", handle, "--owner", "bystander")
		if err := cmd.Run(); err != nil {
			w.T.Errorf("bystander: release: %v", err)
		}
	}
}

func (w *world) bystanderHolds() bool {
	ctx, cancel := context.WithTimeout(context.Background(), clitest.Patience)
	defer cancel()
	pools, err := w.Client.Pools(ctx)
	if err != nil {
		w.T.Error(err)
		return true
	}
	holds := func(l leaseapi.PoolLease) bool { return l.Owner == "bystander" }
	for _, l := range pools[0].Leases {
		if holds(l) {
			return true
		}
	}
	return false
}
