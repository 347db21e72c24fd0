package shared

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// nested returns the lease of a command that runs under a user of the same shared lease: the
// command belongs to that use. Nil: there is no such user.
func (l lease) nested() (*holder.Lease, error) {
	for use := range strings.SplitSeq(l.options.Within, ",") {
		words := strings.Split(use, "/")
		if len(words) != 3 || words[0] != l.key() {
			continue
		}
		record, err := l.file.Read()
		if err != nil {
			return nil, err
		}
		number, _ := strconv.Atoi(words[2])
		r := record.Round(words[1])
		if r == nil || r.State == lockfile.RoundReleasing || l.roundEnded(r) || !l.file.Alive(r.ID, number) {
			continue // the use has ended, and this process lives on
		}
		if l.wanted.Service == nil {
			l.wanted.Service = r.Service // the use has it anyway
		}
		if err := l.conflict(*r); err != nil {
			return nil, err
		}
		l.h.Reporter.Notef("within %s", describeUse(l.shown, *r, number))
		return l.join(*r, &nestedPart{lease: l, round: *r, use: number, seen: *r}), nil
	}
	return nil, nil
}

// nestedPart is the [holder.Part] of a command within another command's use: it only notices a lost
// lease.
type nestedPart struct {
	lease
	round lockfile.Round // as it was when the command began
	use   int            // number of that use
	seen  lockfile.Round // as last read
}

// Uses implements [holder.Part].
func (u *nestedPart) Uses() string { return u.options.Within }

// Variables implements [holder.Part].
func (u *nestedPart) Variables() []string { return variablesOf(u.round) }

// Release implements [holder.Part]: it does nothing.
func (u *nestedPart) Release(context.Context) ([]string, error) { return nil, nil }

// Keep implements [holder.Part].
func (u *nestedPart) Keep(ctx context.Context, o holder.KeepOptions) (kept context.Context, stop func()) {
	return holder.KeepWith(ctx, watchEvery, func(ctx context.Context, lose func(error)) {
		for ; ctx.Err() == nil; proxyclient.Sleep(ctx, watchEvery) {
			if err := u.lost(o.Margin); err != nil {
				lose(err)
				return
			}
		}
	})
}

// lost returns why the command has lost the lease; nil if it has not. The lease counts as lost a margin
// before its end.
func (u *nestedPart) lost(margin time.Duration) error {
	record, err := u.file.Read()
	if err != nil {
		return u.overdue(&u.seen, margin, err)
	}
	r := record.Round(u.round.ID)
	if r == nil || r.State == lockfile.RoundReleasing || !u.file.Alive(r.ID, u.use) {
		return fmt.Errorf("the use of shared lease %q that this command is within has ended: %w", u.shown, proxyclient.ErrLost)
	}
	u.seen = *r
	if err := u.useLoss(r); err != nil {
		return u.lateLoss(r, margin, err)
	}
	return u.overdue(r, margin, nil)
}
