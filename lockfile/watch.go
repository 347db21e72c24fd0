package lockfile

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"time"
)

// watchEvery is how often a watcher looks. Who waits in vain must stop within
// a second; half of it leaves room for a busy machine. A look takes some tens
// of microseconds, less than 0.01 % of a core, which is why nothing of the
// system's file events is worth a dependency here; and unlike time stamps,
// the content tells two changes of one clock tick apart.
const watchEvery = 500 * time.Millisecond

// Watch calls keep with the record of the handle within a second, and again
// within a second whenever it has changed. It returns nil as soon as keep returns
// false, ctx.Err() when ctx ends, and an error if the handle cannot be read.
// No handle, be it gone or not there yet, is the zero Record. Only the latest
// of several quick changes may be seen. It takes no lock, and by the time keep
// runs the record may have changed again: decide in [Handle.Update].
func (h Handle) Watch(ctx context.Context, keep func(Record) bool) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var last []byte
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		r, err := h.Read()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		now, err := r.encode()
		if err != nil {
			return err
		}
		if last == nil || !bytes.Equal(now, last) {
			if !keep(r) {
				return nil
			}
			last = now
		}
	}
}
