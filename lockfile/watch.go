package lockfile

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"time"
)

// watchEvery is how often a watcher reads the handle. A process that waits in vain must stop
// within a second; half of that leaves room for a busy machine. A read takes some tens of
// microseconds, less than 0.01 % of a core, so the system's file events are not worth a
// dependency here. Comparing the content, unlike time stamps, also tells two changes of one
// clock tick apart.
const watchEvery = 500 * time.Millisecond

// Watch calls keep with the record of the handle within a second, and again within a second of
// each change. It blocks, and returns nil as soon as keep returns false, ctx.Err() when ctx
// ends, and an error if the handle cannot be read. While there is no handle, the record is the
// zero Record. Of several quick changes keep may see only the latest. Watch takes no lock, and
// the record may have changed again before keep runs: decide in [Handle.Update].
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
