package shared

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/usage"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// lease is a shared lease as one command sees it: its identity, and the command's
// wishes.
type lease struct {
	h       *holder.Holder
	file    lockfile.Shared
	boot    string         // id of the boot that the times of the record count from
	space   string         // the namespaces in which commands share
	shown   string         // NAME, made printable
	options Options        // how this command asks to share
	wanted  lockfile.Round // the round that this command would begin
}

// dir is the directory of the records of shared leases.
func dir(h *holder.Holder) string { return filepath.Join(h.StateDir, "shared") }

// checkAsk refuses what one user would ask for in the name of all.
func checkAsk(a leaseapi.Ask) error {
	a.Items, a.Overcommit = nil, false
	rest := leaseapi.Said(&a)
	if len(rest) == 0 {
		return nil
	}
	return usage.Errorf("%s does not go with a shared lease: it is taken for all who use it", slices.Min(rest))
}

// leaseFor returns the shared lease that a request is for.
func leaseFor(ctx context.Context, h *holder.Holder, o Options, r holder.Request) (lease, error) {
	if err := checkAsk(r.Ask); err != nil {
		return lease{}, err
	}
	proxy, err := h.Dialer.Name(cmp.Or(r.Proxy, h.Dialer.URL))
	if err != nil {
		return lease{}, err
	}
	identity, err := h.Dialer.Identity(ctx)
	if err != nil {
		return lease{}, err
	}
	l := lease{h: h, boot: bootID(), space: processSpace(), options: o, shown: leaseapi.Clip(o.Name, leaseapi.MaxName)}
	key := digest(l.boot, l.space, strconv.Itoa(os.Getuid()), proxy, r.Type, o.Name)
	l.file = lockfile.Shared(filepath.Join(dir(h), key))
	l.wanted = lockfile.Round{
		Type: r.Type, Count: r.Count, Items: r.Items, Proxy: proxy, TTL: r.TTL, Owner: ownerOf(l.shown, key),
		Service: o.Service.record(),
		MaxUses: o.MaxUses, Bound: o.MaxUses + o.MaxUses*o.Percent/100, MaxAge: o.MaxAge,
	}
	if identity != "" {
		l.wanted.Token = digest(key, identity)[:8]
	}
	if file := h.Dialer.TokenFile; identity != "" && file != "" { // for people, who may look from another directory
		if l.wanted.TokenFile, err = filepath.Abs(file); err != nil {
			return lease{}, err
		}
	}
	return l, nil
}

// ownerOf returns the owner of a shared lease. It names this machine and the NAME, but no
// job. The key tells the NAME from the same NAME elsewhere.
func ownerOf(shown, key string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return leaseapi.Clip(fmt.Sprintf("%s shared %s %s", leaseapi.Clip(host, leaseapi.MaxName), key[:8], shown), leaseapi.MaxOwner)
}

// digest returns a file name for any words: 128 bits of their hash.
func digest(words ...string) string {
	hash := sha256.New()
	for _, w := range words {
		fmt.Fprintf(hash, "%d:%s", len(w), w)
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// isDigest tells whether a file name can be one of [digest]. Other files in the directory are not ours.
func isDigest(name string) bool {
	sum, err := hex.DecodeString(name)
	return err == nil && len(sum) == sha256.Size/2
}

// key names the shared lease in the environment of its users.
func (l lease) key() string { return filepath.Base(string(l.file)) }

// now returns the time since boot, in which the record counts.
func (l lease) now() time.Duration { return proxyclient.Now().SinceBoot() }

// note changes the record after a step, even if the step has used up the time of ctx.
func (l lease) note(ctx context.Context, change func(*lockfile.SharedTx) error) error {
	ctx, cancel := cleanup.ForNotes(ctx)
	defer cancel()
	return l.file.Update(ctx, change)
}

// makeDir makes the directory of the record, or says why it cannot be used.
func (l lease) makeDir() error {
	if err := lockfile.MakeStateDir(l.h.StateDir); err != nil {
		return err
	}
	return lockfile.MakeDir(dir(l.h))
}

// toSettle tells whether a round must be settled: the user that takes its lease or gives it
// back is dead; or no user lives, and the lease is over or the record is of another boot. A round
// with a live keeper is the keeper's to end.
func (l lease) toSettle(tx *lockfile.SharedTx, r *lockfile.Round) bool {
	if l.kept(r) {
		return false
	}
	if r.State != lockfile.RoundHeld && r.State != lockfile.RoundRenewing {
		return !l.file.Alive(r.ID, r.By)
	}
	return (l.roundEnded(r) || tx.Boot != l.boot) && !tx.HasLiveUser(r, 0)
}

// leaseEnded tells whether the lease of a round has ended, or may have: it is lost, its
// deadline is over, or somebody gave it back through its handle.
func (l lease) leaseEnded(r *lockfile.Round) bool { return r.Over(l.now()) || givenBack(r) }

// roundEnded tells whether nobody may join a round, since its lease or its service has ended.
func (l lease) roundEnded(r *lockfile.Round) bool {
	return l.leaseEnded(r) || l.serviceLoss(r) != nil
}

// givenBack tells whether somebody else gave the lease of a round back through its handle: the
// handle is gone, or a reacquire has put another lease into it.
func givenBack(r *lockfile.Round) bool {
	if r.State != lockfile.RoundHeld {
		return false
	}
	handle, err := holder.OpenHandle(r.Handle)
	if err != nil {
		return false // something else is at its path
	}
	now, err := handle.Read()
	gone := errors.Is(err, fs.ErrNotExist) && !handle.HasRecord() // a command that removes the names alone gives nothing back
	return gone || now.RequestID != "" && now.RequestID != r.RequestID
}

// errGivenBack: the users have lost a shared lease, since somebody gave it back through its
// handle.
var errGivenBack = fmt.Errorf("%w: given back through its handle", proxyclient.ErrLost)

// errReleaseDue: the users must stop their use of a shared lease that somebody has released late.
func errReleaseDue(at time.Time) error {
	return fmt.Errorf("%w: released late, at %s", proxyclient.ErrLost, at.Local().Format(time.TimeOnly))
}

// releaseDue returns when the proxy releases the lease of a round, since somebody asked for it, as its handle
// or the last renewal says; zero: it does not.
func releaseDue(r *lockfile.Round) time.Time {
	if handle, err := holder.OpenHandle(r.Handle); err == nil {
		if now, err := handle.Read(); err == nil && now.RequestID == r.RequestID && !now.ReleaseAt.IsZero() {
			return now.ReleaseAt
		}
	}
	return r.ReleaseAt
}

// roundLoss returns why the users of a round have lost its lease; nil if they have not. It does
// not look at the deadline.
func roundLoss(r *lockfile.Round) error {
	switch {
	case r.Lost != "":
		return errors.New(r.Lost)
	case givenBack(r):
		return errGivenBack
	}
	return nil
}

// useLoss returns why the users of a round have lost its lease or its service; nil if they have
// neither. It does not look at the deadline.
func (l lease) useLoss(r *lockfile.Round) error {
	if err := roundLoss(r); err != nil {
		return err
	}
	return l.serviceLoss(r)
}

// describeUse names the use that a command has of a round.
func describeUse(shown string, r lockfile.Round, n int) string {
	of := ""
	if r.Bound > 0 {
		of = fmt.Sprintf(" of at most %d", r.Bound)
	}
	return fmt.Sprintf("shared lease %s %q: use %d%s", strings.Join(r.Names(), ", "), shown, n, of)
}

// releaseBegun tells whether the handle of a round says that its release has begun, so that recover
// finds the lease there.
func releaseBegun(round lockfile.Round) bool {
	handle, err := holder.OpenHandle(round.Handle)
	if err != nil {
		return false
	}
	r, err := handle.Read()
	return err == nil && r.State == holder.HandleReleasing
}
