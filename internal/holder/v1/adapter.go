package v1

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Adapter is what this machine knows of its leases at version-1 proxies. It is safe for concurrent
// use, by several processes too.
type Adapter struct {
	stateDir string // made by the first Acquire
}

// New returns the adapter of a state directory. It opens no file.
func New(stateDir string) *Adapter { return &Adapter{stateDir: stateDir} }

// Held is the file of one name at one proxy.
type Held struct {
	Proxy      string    `json:"proxy"` // its address, as handles remember it
	Name       string    `json:"name"`
	Generation uint64    `json:"generation"` // the time of the grant in nanoseconds; no two of a name are the same
	Owner      string    `json:"owner,omitempty"`
	Handle     string    `json:"handle,omitempty"` // path of the handle that got it
	Request    string    `json:"request,omitempty"`
	At         time.Time `json:"at"` // when it was granted

	State NameState `json:"state"`
	Since time.Time `json:"since,omitzero"` // of the state, if it is not held
	Why   string    `json:"why,omitempty"`  // the outcome is not known
}

// Check implements [lockfile.Checked]. Why is for people.
func (h Held) Check() error {
	err := cmp.Or(leaseapi.CheckName(h.Name), leaseapi.CheckOwner(h.Owner))
	if h.Request != "" {
		err = cmp.Or(err, leaseapi.CheckRequestID(h.Request))
	}
	switch {
	case err != nil:
		return err
	case !slices.Contains([]NameState{NameHeld, NameReleasing, NameUnconfirmed, NameMissing}, h.State):
		return fmt.Errorf("state %q is not known", leaseapi.Shorten(string(h.State)))
	case h.Handle != "" && !filepath.IsAbs(h.Handle):
		return fmt.Errorf("handle %q is no absolute path", leaseapi.Shorten(h.Handle))
	case leaseapi.Printable(h.Proxy) != h.Proxy || !strings.Contains(h.Proxy, "://"):
		return fmt.Errorf("proxy %q is no address", leaseapi.Shorten(h.Proxy))
	}
	return nil
}

// NameState is the state of a [Held].
type NameState string

// States. See the package's comment.
const (
	NameHeld        NameState = "held"
	NameReleasing   NameState = "releasing"
	NameUnconfirmed NameState = "unconfirmed"
	NameMissing     NameState = "missing"
)

// whyKilled is why the release of a file that says releasing, and is unlocked, is unconfirmed.
const whyKilled = "the process that released it was killed"

func (a *Adapter) dir() string { return filepath.Join(a.stateDir, "version1") }

func (a *Adapter) cell(proxy, name string) lockfile.Cell {
	sum := sha256.Sum256([]byte(proxy + "\n" + name))
	return lockfile.CellIn(a.dir(), hex.EncodeToString(sum[:16]))
}

// identity is the content of the cell with the id of the adapter.
type identity struct {
	ID string `json:"id"`
}

func (a *Adapter) idCell() lockfile.Cell { return lockfile.CellIn(a.stateDir, "version1") }

// Check implements [lockfile.Checked].
func (i identity) Check() error { return leaseapi.CheckRequestID(i.ID) }

// ID returns the id that the records of this adapter's leases have; "" if it has given none.
func (a *Adapter) ID() string {
	var is identity
	a.idCell().Read(&is) // one that cannot be read has given none that we know
	return is.ID
}

// makeID returns the id, and makes the directories.
func (a *Adapter) makeID(ctx context.Context) (string, error) {
	if err := errors.Join(lockfile.MakeDir(a.stateDir), lockfile.MakeDir(a.dir())); err != nil {
		return "", err
	}
	if id := a.ID(); id != "" {
		return id, nil
	}
	var is identity
	err := a.idCell().Update(ctx, func(tx *lockfile.CellTx) error {
		if found, err := tx.Value(&is); found || err != nil {
			return err
		}
		is.ID = rand.Text()
		return tx.Set(is)
	})
	return is.ID, err
}

// take writes the file of a name that was granted just now, and sets its generation. A file that is
// there is of an earlier lease, which must be over.
func (a *Adapter) take(ctx context.Context, h *Held) error {
	return a.cell(h.Proxy, h.Name).Update(ctx, func(tx *lockfile.CellTx) error {
		var before Held
		if _, err := tx.Value(&before); errors.Is(err, lockfile.ErrNewer) {
			return err
		}
		h.State, h.Generation = NameHeld, max(uint64(time.Now().UnixNano()), before.Generation+1)
		return tx.Set(*h)
	})
}

// drop removes the files of leases that were just granted and cannot be kept. One that stays does no
// harm unless its name is released once more.
func (a *Adapter) drop(ctx context.Context, proxy string, leases []lockfile.Lease) {
	for _, l := range leases {
		if l.Generation == 0 {
			continue // it has no file yet
		}
		a.cell(proxy, l.Name).Update(ctx, func(tx *lockfile.CellTx) error {
			var h Held
			if found, err := tx.Value(&h); err != nil || !found || h.Generation != l.Generation {
				return err
			}
			return tx.Remove()
		})
	}
}

// Find returns the lease of a name that this machine holds at a proxy.
func (a *Adapter) Find(proxy, name string) (h Held, found bool) {
	found, err := a.cell(proxy, name).Read(&h)
	return h, found && err == nil && h.State == NameHeld
}

// HoldsAny tells whether this machine holds one of the leases of a record at a proxy.
func (a *Adapter) HoldsAny(proxy string, leases []lockfile.Lease) (bool, error) {
	for _, l := range leases {
		var h Held
		found, err := a.cell(proxy, l.Name).Read(&h)
		if err != nil || found && h.State == NameHeld && h.Generation == l.Generation {
			return err == nil, err
		}
	}
	return false, nil
}

// all returns what all files say. With an error it returns those that can be read.
func (a *Adapter) all() (all []Held, err error) {
	cells, err := lockfile.Cells(a.dir())
	errs := []error{err}
	for _, c := range cells {
		var h Held
		found, err := c.Read(&h)
		errs = append(errs, err)
		if found {
			all = append(all, h)
		}
	}
	return all, errors.Join(errs...)
}

// Unsettled returns the leases whose release is not known to have succeeded, the oldest first,
// without those that a process releases now. With an error it returns those that it could read.
func (a *Adapter) Unsettled() (unsettled []Held, err error) {
	all, err := a.all()
	errs := []error{err}
	for _, h := range all {
		if h.State == NameReleasing {
			err := a.cell(h.Proxy, h.Name).TryUpdate(func(tx *lockfile.CellTx) (err error) {
				h, err = settled(tx)
				return err
			})
			if errors.Is(err, lockfile.ErrLocked) {
				continue
			}
			errs = append(errs, err)
		}
		if h.State == NameUnconfirmed || h.State == NameMissing {
			unsettled = append(unsettled, h)
		}
	}
	return unsettled, errors.Join(errs...)
}

// settled returns what the file says under its lock: a release that was under way was killed. The
// zero Held: there is no file.
func settled(tx *lockfile.CellTx) (h Held, err error) {
	found, err := tx.Value(&h)
	if err != nil || !found {
		return Held{}, err
	}
	if h.State == NameReleasing {
		h.State, h.Why = NameUnconfirmed, whyKilled
		err = tx.Set(h)
	}
	return h, err
}

// Forget removes the files of a name that [Adapter.Unsettled] lists, and returns what they said.
func (a *Adapter) Forget(ctx context.Context, name string) (forgotten []Held, err error) {
	unsettled, err := a.Unsettled()
	errs := []error{err}
	for _, u := range unsettled {
		if u.Name != name {
			continue
		}
		errs = append(errs, a.cell(u.Proxy, u.Name).Update(ctx, func(tx *lockfile.CellTx) error {
			h, err := settled(tx)
			if err != nil || h.State != NameUnconfirmed && h.State != NameMissing {
				return err
			}
			forgotten = append(forgotten, h)
			return tx.Remove()
		}))
	}
	return forgotten, errors.Join(errs...)
}

// OfRequest returns the leases that a request got here and that nobody has begun to release.
func (a *Adapter) OfRequest(request string) (held []Held, err error) {
	all, err := a.all()
	return slices.DeleteFunc(all, func(h Held) bool { return h.Request != request || h.State != NameHeld }), err
}

func now() time.Time { return time.Now().UTC().Round(time.Millisecond) }

// UnconfirmedError says that the outcome of releases is not known, and that they are not sent
// again.
type UnconfirmedError struct{ Leases []Held }

func (e *UnconfirmedError) Error() string {
	each := make([]string, len(e.Leases))
	for i, h := range e.Leases {
		each[i] = fmt.Sprintf("%s (%s)", h.Name, h.Why)
	}
	return fmt.Sprintf("the release of %s is unconfirmed: %s may still count it as held, and it is not sent again, since the name may be somebody else's by now: look there, and then run leasectl recover --forget %s",
		strings.Join(each, ", "), proxyclient.Redacted(e.Leases[0].Proxy), e.Leases[0].Name)
}

// Is makes the error a [proxyclient.ErrUnconfirmed].
func (e *UnconfirmedError) Is(target error) bool { return target == proxyclient.ErrUnconfirmed }
