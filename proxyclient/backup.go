package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// backupSilence is how long a proxy may send nothing: before its copy, which it makes
// first, and between two parts of it. The copy as a whole takes as long as it takes.
const backupSilence = time.Minute

// Backup writes a copy of the proxy's store to w, as it is at this moment, and
// returns its size in bytes. Like the other calls of operators it tries again, but
// not once a part of a copy was written to w.
func (c *Client) Backup(ctx context.Context, w io.Writer) (size int64, err error) {
	b := backup{proxy: c.name, w: w}
	q := post(leaseapi.PathBackup, nil, &b)
	q.timeout, q.receive = backupSilence, b.receive
	err = c.carryOut(ctx, "backup", q, func(outcome) bool { return b.begun })
	return b.size, err
}

// backup receives a copy, and is the policy of the call that asks for it.
type backup struct {
	proxy string // as it may be shown
	w     io.Writer
	begun bool // a good answer was there, and the copy begins
	size  int64
}

func (b *backup) mayRepeat(o outcome) bool {
	// After a 500 the proxy has tried, which costs it a copy each time.
	return !b.begun && (o.err != nil || o.StatusCode != http.StatusInternalServerError) && idempotent{}.mayRepeat(o)
}

// receive takes the body of r if that is a copy.
func (b *backup) receive(r *http.Response) (taken bool, err error) {
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "application/octet-stream" {
		return false, nil
	}
	b.begun = true
	body := &watchedBody{body: r.Body}
	b.size, err = io.Copy(b.w, body)
	if body.err != nil && r.Request.Context().Err() == nil {
		text := fmt.Sprintf("%v: %s: %v after %d bytes of the copy: try again", ErrUnreachable, b.proxy, body.err, b.size)
		err = &reworded{text: text, err: errors.Join(ErrUnreachable, body.err)}
	}
	return true, err
}

// watchedBody is a body whose reads fail after [backupSilence].
type watchedBody struct {
	body io.ReadCloser
	err  error // of the last read, if it failed
}

func (w *watchedBody) Read(p []byte) (int, error) {
	silent := time.AfterFunc(backupSilence, func() { w.body.Close() })
	n, err := w.body.Read(p)
	if inTime := silent.Stop(); err != nil && !inTime {
		err = fmt.Errorf("silent for %s", leaseapi.Duration(backupSilence))
	}
	if err != io.EOF {
		w.err = err
	}
	return n, err
}
