package supervisor

import (
	"slices"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/trap"
)

// Signals that came before a command are not replayed to it, nor are signals that the command
// of the attempt before did not take.
func TestDrop(t *testing.T) {
	s := &signals{heard: make(chan syscall.Signal, 64)}
	pass := func(sig syscall.Signal) {
		if err := s.pass(trap.Event{Signal: sig}); err != nil {
			t.Fatal(err)
		}
	}
	heard := func() (got []syscall.Signal) {
		for len(s.heard) > 0 {
			got = append(got, <-s.heard)
		}
		return got
	}
	pass(syscall.SIGTERM)
	s.drop()
	if got := heard(); len(got) > 0 {
		t.Errorf("replayed %v", got)
	}
	pass(syscall.SIGTERM)
	pass(syscall.SIGUSR1)
	pass(syscall.SIGTERM)
	if got, want := heard(), []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGTERM}; !slices.Equal(got, want) {
		t.Errorf("forwarded %v, want %v", got, want)
	}
	for range 100 { // nobody takes them, and yet no call blocks
		pass(syscall.SIGUSR1)
	}
	if got := len(s.heard); got != cap(s.heard) {
		t.Errorf("%d signals are kept, want %d", got, cap(s.heard))
	}
	s.drop()
	if got := heard(); len(got) > 0 {
		t.Errorf("the next command gets %v", got)
	}
}

// A command learns of its own lease, and nothing of an outer leasectl's.
func TestEnvironmentWithoutLease(t *testing.T) {
	outer := []string{"A=1", "LEASECTL_STATE=acquired", "LEASECTL_HANDLE=/h", "LEASECTL_NAMES=a,b", "LEASECTL_GENERATION=7", "LEASED_RESOURCE=a", "LEASECTL_OWNER=job-1"}
	got := environment(outer, nil, stateDegraded)
	want := []string{"A=1", "LEASECTL_OWNER=job-1", "LEASECTL_STATE=degraded", "LEASECTL_HANDLE=", "LEASECTL_NAMES="}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if outer[1] != "LEASECTL_STATE=acquired" {
		t.Error("the caller's environment was changed")
	}
}

// LEASED_RESOURCE is a word of CI systems, too: a command that runs without a lease keeps the
// value of its job.
func TestEnvironmentKeepsTheJobsResource(t *testing.T) {
	for _, outer := range [][]string{nil, {"LEASECTL_STATE=acquired", "LEASECTL_NAMES=a,b"}, {"LEASECTL_STATE=skipped", "LEASECTL_NAMES="}} {
		if got := environment(append(outer, "LEASED_RESOURCE=us-east-1"), nil, stateSkipped); !slices.Contains(got, "LEASED_RESOURCE=us-east-1") {
			t.Errorf("under %q the command has %q", outer, got)
		}
	}
}
