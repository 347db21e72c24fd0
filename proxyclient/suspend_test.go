package proxyclient

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/suspend"
)

// machine is a machine that tests can suspend.
type machine struct {
	slept   atomic.Int64
	resumed chan struct{}
}

func newMachine(t *testing.T) *machine {
	m := &machine{resumed: make(chan struct{}, 1)}
	timeSuspended = func() time.Duration { return time.Duration(m.slept.Load()) }
	watchResumes = func() (<-chan struct{}, func()) { return m.resumed, func() {} }
	t.Cleanup(func() { timeSuspended, watchResumes = suspend.Total, suspend.Resumes })
	return m
}

// suspend lets d pass by the boot-time clock only: the monotonic clock and all timers stand
// still. Without tell the resume is not reported.
func (m *machine) suspend(d time.Duration, tell bool) {
	m.slept.Add(int64(d))
	if tell {
		m.resumed <- struct{}{}
	}
}

// After a suspend the heartbeat checks the deadline at once, before it renews.
func TestHeartbeatSuspended(t *testing.T) {
	run := func(t *testing.T, faults ...fault) (*machine, *ours, *memory, *beating) {
		m, s := newMachine(t), newOurs(t)
		c, net := serve(t, s, faults...)
		return m, s, net, beatOn(t, &Heartbeat{Client: c, Leases: leases, Margin: 10 * time.Second})
	}
	bubble(t, "past the deadline", func(t *testing.T) {
		m, s, _, b := run(t)
		time.Sleep(20 * time.Second)
		m.suspend(time.Hour, true)
		l := b.lost(t, 20*time.Second)
		if left := Until(l.Deadline); left != 5*time.Minute-time.Hour-20*time.Second || s.renewed() != 1 {
			t.Errorf("%s left, %d renewals", left, s.renewed())
		}
	})
	bubble(t, "past the next renewal", func(t *testing.T) {
		m, s, _, b := run(t)
		time.Sleep(20 * time.Second)
		m.suspend(3*time.Minute, true)
		time.Sleep(time.Second)
		if s.renewed() != 2 {
			t.Errorf("%d renewals, want one at once", s.renewed())
		}
		b.stop(t)
	})
	bubble(t, "between two attempts", func(t *testing.T) {
		down := slices.Repeat([]fault{dialRefused}, 1000)
		m, _, net, b := run(t, append([]fault{{}}, down...)...)
		time.Sleep(40 * time.Second) // in the middle of the retries
		m.suspend(time.Hour, false)  // so that the next attempt's timer is the first
		before := net.dialled()
		<-b.done
		if after := net.dialled(); before < 5 || after != before {
			t.Errorf("%d attempts before, %d after", before, after)
		}
	})
	bubble(t, "before it runs", func(t *testing.T) {
		newMachine(t)
		c, net := serve(t, newOurs(t))
		b := beatOn(t, &Heartbeat{Client: c, Leases: leases, Deadline: Now().Add(-time.Second)})
		b.lost(t, 0)
		if net.dials != 0 {
			t.Error("renewed all the same")
		}
	})
}
