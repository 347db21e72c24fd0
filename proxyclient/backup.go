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

// backupSilence is how long a proxy may send nothing: while it makes the copy, before the
// first byte, and between two parts of the copy. Nothing bounds the copy as a whole.
const backupSilence = time.Minute

// Backup writes a copy of the proxy's current store to w, and returns the number of bytes
// written. Like the other operators' calls it retries, but not after a copy has begun to
// arrive.
func (c *Client) Backup(ctx context.Context, w io.Writer) (size int64, err error) {
	b := backup{proxy: c.name, w: w}
	q := post(leaseapi.PathBackup, nil, &b)
	q.timeout, q.receive = backupSilence, b.receive
	err = c.carryOut(ctx, "backup", q, func(outcome) bool { return b.begun })
	return b.size, err
}

// backup receives a copy, and is the policy of the call that asks for it.
type backup struct {
	proxy string // the proxy's URLs, without passwords
	w     io.Writer
	begun bool // the header of a copy has arrived
	size  int64
}

func (b *backup) mayRepeat(o outcome) bool {
	// A 500 means that the proxy tried and failed; each try costs it a copy.
	return !b.begun && (o.err != nil || o.StatusCode != http.StatusInternalServerError) && idempotent{}.mayRepeat(o)
}

// receive takes the body of r if it is a copy.
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

// watchedBody is a body whose reads fail after backupSilence without data.
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
