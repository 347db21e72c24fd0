package campaign

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/leaseapi"
)

var (
	execRounds = flag.Int("exec-rounds", 30, "rounds of TestExecCampaign: 1000, for a whole campaign")
	execSeed   = flag.Uint64("exec-seed", 0, "seed of TestExecCampaign; 0 takes one")
	// Most of a round is waiting.
	execAtOnce = flag.Int("exec-at-once", 12, "how many rounds of TestExecCampaign run at the same time")
)

const (
	campaignTTL   = 10 * time.Second
	campaignGrace = 500 * time.Millisecond
)

// TestExecCampaign sends KILL, STOP, CONT, TERM and INT to exec, its command, the command's group
// and the reader of their stderr, at random moments.
//
//	go test -run TestExecCampaign -exec-rounds 1000 -timeout 1h ./cmd/leasectl/campaign
//
// It checks:
//   - no command lives when its lease ends, unless exec was killed;
//   - if exec stopped the command, no process of its group lives;
//   - the exit code is exact if the run ended by itself or by one signal;
//   - nothing is held when the TTL is over.
func TestExecCampaign(t *testing.T) {
	t.Parallel()
	seed := *execSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d, %d rounds", seed, *execRounds)
	w := newWorld(t, clitest.Build(t, ""), fmt.Sprintf("install=%d", *execRounds))
	rounds := make([]*campaignRound, *execRounds)
	var workers sync.WaitGroup
	free := make(chan struct{}, *execAtOnce)
	for i := range rounds {
		free <- struct{}{}
		rounds[i] = newCampaignRound(w, i, rand.New(rand.NewPCG(seed, uint64(i))))
		workers.Go(func() {
			rounds[i].run()
			<-free
		})
	}
	workers.Wait()
	// A KILL before the confirmation leaves a grant for ProvisionalTTL.
	longest := time.Now().Add(max(campaignTTL, leaseapi.ProvisionalTTL) + 5*time.Second)
	for w.Pool("install").InUse > 0 {
		if time.Now().After(longest) {
			t.Errorf("after the TTL %+v are held", w.Pool("install").Leases)
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.WantHeld()
	ends := w.leaseEnds()
	count, kills := make(map[string]int), 0
	for _, r := range rounds {
		r.check(ends[r.owner])
		count[r.ending]++
		kills += r.kills
	}
	t.Logf("%d KILLs; the runs ended by: %v", kills, count)
}

// check compares when the command was last seen alive with the end of its lease in the proxy's log.
// The command of a killed exec is left out: the next exec gives its lease back, perhaps before
// the command has died.
func (r *campaignRound) check(ends []time.Time) {
	if len(ends) == 0 && r.sampled.leader != 0 {
		r.w.T.Errorf("%s: the command ran, and the log has no end of its lease", r.owner)
	}
	for _, end := range ends {
		if last := r.sampled.last; last.After(end) && !r.slept && !r.killed {
			r.w.T.Errorf("%s: the command was alive %v after its lease had ended: %v, deaf: %t", r.owner, last.Sub(end), r.acts, r.deaf)
		}
	}
}

var endLine = regexp.MustCompile(`time=(\S+) .*msg=(?:released|expired|broken) owner=(round-\d+) `)

// leaseEnds returns when the leases of each owner ended, by the proxy's log.
func (w *world) leaseEnds() map[string][]time.Time {
	ends := make(map[string][]time.Time)
	for line := range strings.Lines(w.Log.String()) {
		if m := endLine.FindStringSubmatch(line); m != nil {
			at, err := time.Parse(time.RFC3339Nano, m[1])
			if err != nil {
				w.T.Error(err)
			}
			// The log cuts the time to milliseconds.
			ends[m[2]] = append(ends[m[2]], at.Add(time.Millisecond))
		}
	}
	return ends
}
