package unsteady

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// Schedules says which schedules a test runs. What happens in a schedule follows from its seed.
type Schedules struct {
	Count int    // a tenth of them with -short
	Seed  uint64 // runs only the schedule with this seed; 0: Count of them, with seeds of this run

	Parallel int    // how many run at once; 0: one
	Again    string // the command that runs one again, up to its seed
}

// Schedule is one of them.
type Schedule struct {
	Seed   uint64
	Faults []string // what run did to the servers
}

// Run calls run for each schedule, in a test of its own, until one fails. It logs the faults of
// that one, and how to run it again.
func (s Schedules) Run(t *testing.T, run func(t *testing.T, s *Schedule)) {
	one := func(seed uint64) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			schedule := &Schedule{Seed: seed}
			// Deferred, since a test that fails in a bubble of synctest ends here with FailNow.
			defer func() {
				if t.Failed() {
					t.Logf("%s\nagain: %s %d", strings.Join(schedule.Faults, "; "), s.Again, seed)
				}
			}()
			run(t, schedule)
		})
	}
	if s.Seed != 0 {
		one(s.Seed)
		return
	}
	n := uint64(max(s.Count, 0))
	if testing.Short() {
		n /= 10
	}
	first, step := rand.Uint64()>>1, uint64(max(s.Parallel, 1))
	t.Logf("%d schedules from seed %d", n, first)
	var parts sync.WaitGroup
	for part := range step {
		parts.Go(func() {
			for i := part; i < n && !t.Failed(); i += step {
				one(first + i)
			}
		})
	}
	parts.Wait()
}

// Faultf adds to the faults of s.
func (s *Schedule) Faultf(format string, args ...any) {
	s.Faults = append(s.Faults, fmt.Sprintf(format, args...))
}

// CheckHistory fails t if one server that never fails, which is model, cannot have given the outputs
// of ops, in any order that their times allow. Their clients do not matter: a call that was not
// answered may be carried out after the next call of its client. CheckHistory fails t also if the
// checker takes more than a minute.
func CheckHistory(t testing.TB, model porcupine.Model, ops []porcupine.Operation) {
	t.Helper()
	for i := range ops {
		ops[i].ClientId = i // the checker takes the calls of one client as one after the other
	}
	if result := porcupine.CheckOperationsTimeout(model, ops, time.Minute); result != porcupine.Ok {
		t.Errorf("the checker says %s: no order explains what the clients saw in %d calls", result, len(ops))
	}
}
