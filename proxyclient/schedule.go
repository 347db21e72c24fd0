package proxyclient

import (
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// schedule has the times at which a heartbeat acts.
type schedule struct {
	margin    time.Duration // before the deadline
	deadline  Instant       // when the leases end unless they are renewed
	next      Instant       // when to renew
	limit     Instant       // when to give up; with releasing: when to end without an error
	releasing bool          // a delayed release is pending, due at deadline
}

// newSchedule returns a schedule that renews at once. For a zero deadline it assumes that
// the leases were granted just now.
func newSchedule(deadline Instant, margin time.Duration) schedule {
	if deadline.IsZero() {
		deadline = Now().Add(leaseapi.ProvisionalTTL)
	}
	s := schedule{margin: margin, deadline: deadline, next: Now()}
	s.setLimit()
	return s
}

// renewed updates the schedule after a renewal.
func (s *schedule) renewed(r Renewal) {
	s.deadline = r.Deadline
	s.next = r.Asked.Add(r.RenewEvery)
	s.releasing = !r.ReleaseAt.IsZero()
	s.setLimit()
}

// retryPause is the longest pause after a failure that the renewal itself does not
// retry, such as a refused token: the cause may be mended before the deadline.
const retryPause = 2 * time.Second

// failed updates the schedule after a failed renewal.
func (s *schedule) failed() {
	s.next = Now().Add(max(minPause, min(retryPause, Until(s.limit)/4)))
}

func (s *schedule) setLimit() {
	s.limit = s.deadline
	if !s.releasing {
		s.limit = s.deadline.Add(-min(s.margin, max(0, Until(s.deadline)/2)))
	}
}

// wake returns when the heartbeat acts next. During a renewal that is the limit.
func (s *schedule) wake(renewing bool) Instant {
	if !renewing && s.next.Sub(s.limit) < 0 {
		return s.next
	}
	return s.limit
}
