package holder

import (
	"context"
	"errors"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// Release gives back what a handle holds or waits for, whichever process put it there, and returns
// the names that were released. With a delay it waits first, and does nothing if the handle then
// has another grant than r, the handle's record as read before. A handle that is gone is a success.
// After a failure the handle stays and says that its release has begun.
//
// A release that is due takes at most [ReleaseTimeout], and at most 3 s once ctx has ended.
func (h *Holder) Release(ctx context.Context, handle lockfile.Handle, r lockfile.Record, d Delay) (released []string, err error) {
	same := Anything
	if d.Time > 0 {
		same = func(now lockfile.Record) bool { return sameGrant(now, r) }
		what := "the request of handle " + handle.Path() // which has no name yet
		if names := r.NamesInFile(); len(names) > 0 {
			what = strings.Join(names, ", ")
		}
		h.report.Notef("releasing %s in %s", what, leaseapi.Duration(d.Time))
		err = d.wait(ctx, h.report, func(ctx context.Context) error { return handle.Watch(ctx, same) })
		if errors.Is(err, ErrReplaced) {
			h.report.Notef("handle %s was released or acquired again meanwhile: nothing to do", handle.Path())
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	released, _, err = h.giveBack(ctx, handle, same)
	for _, name := range released {
		h.report.Debugf("released %s", name)
	}
	return released, err
}
