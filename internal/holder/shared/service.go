package shared

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/failpoint"
	"github.com/leasectl/leasectl/internal/holder/service"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// A round of a shared lease may have a service, a process that its users use. The first user
// starts a keeper, which starts the service, and makes the round held once the service is ready. A
// round with a live keeper is the keeper's to end: it stops the service when no user is left, and
// then gives the lease back. If the keeper was killed, the round is ended as one without a service,
// by its last user or by the next process that looks; but first the process group of the service is
// killed, in case its guard has not done so yet.

// serviceError is a [holder.ErrService].
type serviceError string

func (e serviceError) Error() string        { return string(e) }
func (e serviceError) Is(target error) bool { return target == holder.ErrService }

// Service says which process comes with a round of a shared lease.
type Service struct {
	Command string // for sh -c
	// Ready is the regular expression of a line of its output that says that it is ready, and has
	// the variables for the commands of the round: see [CheckReady]. "": it is ready after a second.
	Ready   string
	Timeout time.Duration // until it must be ready
	Grace   time.Duration // from TERM to KILL
	Dir     string        // where it runs
	// Environment returns the environment of the service, for the lease of its round.
	Environment func(*holder.Lease) []string
}

// DefaultReady is the usual [Service.Ready]: NAME='value' or NAME=value, with an upper-case NAME.
const DefaultReady = service.DefaultReady

// CheckReady tells whether an expression can be a [Service.Ready]. If not, the error says what is
// wanted.
func CheckReady(ready string) error { return service.Check(ready) }

// record returns the service for the record of a round.
func (s *Service) record() *lockfile.Service {
	if s == nil {
		return nil
	}
	return &lockfile.Service{Command: s.Command, Ready: s.Ready, Timeout: s.Timeout, Grace: s.Grace}
}

// kept tells whether a round has a live keeper, which ends the round.
func (l lease) kept(r *lockfile.Round) bool { return r.Service != nil && l.file.Kept(r.ID) }

// serviceLoss returns why the users of a round have no service; nil if they have, or it is being
// started, or the round has none.
func (l lease) serviceLoss(r *lockfile.Round) error {
	switch {
	case r.Service == nil:
		return nil
	case r.Service.Over != "":
		return serviceError(l.describeOver(r.Service))
	case r.State == lockfile.RoundHeld && !l.file.Kept(r.ID):
		return l.keeperEnded(r)
	}
	return nil
}

// keeperEnded says why the service of a round is over that the record calls live. A keeper that was
// not killed has removed its socket.
func (l lease) keeperEnded(r *lockfile.Round) error {
	why := "its keeper could not write the record of the round"
	if l.h.Keepers.Killed(r.ID) {
		why = "its keeper was killed"
	}
	return serviceError(fmt.Sprintf("the service of shared lease %q ended, since %s", l.shown, why))
}

// describeOver says why a service is over, and what it printed last.
func (l lease) describeOver(s *lockfile.Service) string {
	text := fmt.Sprintf("the service of shared lease %q %s", l.shown, s.Over)
	switch {
	case len(s.Said) == 0:
		return text
	case len(s.Variables) > 0: // it was ready: its log is worth one line
		return fmt.Sprintf("%s (its last line: %q)", text, s.Said[len(s.Said)-1])
	}
	quoted := make([]string, len(s.Said))
	for i, line := range s.Said {
		quoted[i] = strconv.Quote(line)
	}
	return fmt.Sprintf("%s (its last lines: %s)", text, strings.Join(quoted, ", "))
}

// sameService tells whether two rounds have the same service. The other settings are those of the first
// user.
func sameService(a, b *lockfile.Service) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Command == b.Command && a.Ready == b.Ready
}

// describeService says which service a round has.
func describeService(r lockfile.Round) string {
	switch s := r.Service; {
	case s == nil:
		return "no --service"
	case s.Ready == "":
		return fmt.Sprintf("--service %q with --service-env ''", leaseapi.Shorten(s.Command))
	case s.Ready == DefaultReady:
		return fmt.Sprintf("--service %q", leaseapi.Shorten(s.Command))
	default:
		return fmt.Sprintf("--service %q with --service-env %q", leaseapi.Shorten(s.Command), leaseapi.Shorten(s.Ready))
	}
}

// serviceLook is how often a user looks at most whether a service is ready, or has ended.
const serviceLook = 20 * time.Millisecond

// startService has a keeper start the service of a round that this process began, and blocks until
// the service is ready. After an error this process has no use of the round, and the lease is given
// back.
func (n *newcomer) startService(ctx context.Context, c *choice) error {
	failpoint.Here("service-user-unasked")
	use := n.partOf(*c)
	l := n.join(c.round, use)
	err := startService(ctx, n.h.Keepers, n.file, c.round.ID, n.options.Service.Dir, n.options.Service.Environment(l))
	if err != nil {
		err = fmt.Errorf("shared lease %q: %w", n.shown, err)
	} else {
		failpoint.Here("service-user-asked")
		err = n.awaitService(ctx, c)
	}
	if err == nil {
		return nil
	}
	released, failed := use.Release(ctx)
	if len(released) > 0 {
		n.h.Reporter.Debugf("released %s", strings.Join(released, ", "))
	}
	return errors.Join(err, failed)
}

// awaitService blocks until the service of a round is ready, and puts the round into c.
func (n *newcomer) awaitService(ctx context.Context, c *choice) error {
	begun := proxyclient.Now()
	for {
		record, err := n.file.Read()
		r := record.Round(c.round.ID)
		switch {
		case err != nil:
			return err
		case r == nil:
			return errRecordRemoved
		case n.serviceLoss(r) != nil:
			return n.serviceLoss(r)
		case roundLoss(r) != nil:
			return roundLoss(r)
		case r.State == lockfile.RoundHeld:
			c.round = *r
			return nil
		case !n.file.Kept(r.ID) && !n.changed(r):
			return n.keeperEnded(r)
		}
		waited := proxyclient.Now().Sub(begun)
		if r := c.round.Service; waited > r.Timeout+r.Grace+cleanup.Timeout { // its keeper cannot say so
			return serviceError(fmt.Sprintf("the service of shared lease %q was not ready within %s: its keeper says nothing", n.shown, leaseapi.Duration(r.Timeout)))
		}
		if err := proxyclient.Sleep(ctx, pauseAfter(waited, serviceLook)); err != nil {
			return err
		}
	}
}

// changed tells whether the record says something else of a round than r: its keeper may have
// written that before it ended.
func (l lease) changed(r *lockfile.Round) bool {
	record, err := l.file.Read()
	now := record.Round(r.ID)
	return err == nil && (now == nil || now.State != r.State || now.Service.Over != r.Service.Over)
}

// leaveService ends a use of a round with a live keeper. It waits until the keeper has ended the
// round, if this was the last use and the service does not linger.
func (u *part) leaveService(ctx context.Context, left leftRound) (released []string, err error) {
	failpoint.Here("service-user-left")
	if left.lingers { // the keeper need not hear of it before its next look
		u.h.Reporter.Notef("%s lingers with its service for %s", strings.Join(left.round.Names(), ", "), leaseapi.Duration(u.options.Linger))
		return nil, nil
	}
	ended := u.leaseEnded(left.round) // looked at before the keeper removes the handle
	u.h.Keepers.Wake(left.round.ID)
	ctx, cancel := cleanup.Within(ctx, left.round.Service.Grace+cleanup.Timeout)
	defer cancel()
	if err := u.awaitKeeper(ctx, left.round.ID); err != nil {
		return nil, err
	}
	gone, err := u.roundGone(ctx, left.round.ID)
	switch {
	case err != nil:
		return nil, err
	case !gone: // its keeper was killed, or could not give the lease back
		released, _, err = u.releaseRound(ctx, left.round.ID)
		return released, err
	case ended || left.round.Over(u.now()):
		return nil, nil
	}
	return left.round.Names(), nil
}

// roundGone tells whether a round is gone. It looks under the lock of the record: a keeper that ends
// its round may still be writing.
func (l lease) roundGone(ctx context.Context, id string) (gone bool, err error) {
	err = l.file.Update(ctx, func(tx *lockfile.SharedTx) error {
		gone = tx.Round(id) == nil
		return nil
	})
	return gone, err
}

// awaitKeeper blocks until the keeper of a round has ended.
func (l lease) awaitKeeper(ctx context.Context, id string) error {
	for begun := proxyclient.Now(); l.file.Kept(id); {
		waited := proxyclient.Now().Sub(begun)
		if err := proxyclient.Sleep(ctx, pauseAfter(waited, serviceLook)); err != nil {
			return fmt.Errorf("the keeper of shared lease %q is still stopping its service, and then gives the lease back: %w", l.shown, err)
		}
	}
	return nil
}

// endService kills what is left of the service of a round whose keeper is dead.
func (l lease) endService(ctx context.Context, r lockfile.Round) error {
	if r.Service == nil {
		return nil
	}
	l.h.Keepers.Dismiss(r.ID)
	group := 0
	if record, err := l.file.Read(); err == nil && record.Space == l.space {
		group = r.Service.Group // elsewhere that is the id of another group
	}
	return service.KillGroup(ctx, group, func() (lives, sure bool) { return l.file.Guarded(r.ID) })
}
