package proxyclient

import (
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// schedule is when a heartbeat has something to do.
type schedule struct {
	margin    time.Duration // before the deadline
	deadline  Instant       // when the leases end unless they are renewed
	next      Instant       // when to renew
	limit     Instant       // when to give up, or to end quietly
	releasing bool          // a delayed release is pending: deadline is its time
}

// newSchedule renews at once. A zero deadline stands for that of a grant that
// came just now.
func newSchedule(deadline Instant, margin time.Duration) schedule {
	if deadline.IsZero() {
		deadline = Now().Add(leaseapi.ProvisionalTTL)
	}
	s := schedule{margin: margin, deadline: deadline, next: Now()}
	s.setLimit()
	return s
}

// renewed follows a renewal.
func (s *schedule) renewed(r Renewal) {
	s.deadline = r.Deadline
	s.next = r.Asked.Add(r.RenewEvery)
	s.releasing = !r.ReleaseAt.IsZero()
	s.setLimit()
}

// retryPause is the longest pause after a renewal that failed in a way that is
// not repeated within the renewal: a refused token, say. It may be mended before
// the deadline.
const retryPause = 2 * time.Second

// failed follows a renewal that failed.
func (s *schedule) failed() {
	s.next = Now().Add(max(minPause, min(retryPause, Until(s.limit)/4)))
}

func (s *schedule) setLimit() {
	s.limit = s.deadline
	if !s.releasing {
		s.limit = s.deadline.Add(-min(s.margin, max(0, Until(s.deadline)/2)))
	}
}

// wake is when the heartbeat has something to do next. While it renews, that is
// the limit.
func (s *schedule) wake(renewing bool) Instant {
	if !renewing && s.next.Sub(s.limit) < 0 {
		return s.next
	}
	return s.limit
}
