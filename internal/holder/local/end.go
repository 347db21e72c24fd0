package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/leasectl/leasectl/lockfile"
)

// End hides a local proxy from commands before it stops.
type End struct {
	proxy  Proxy
	ours   fs.FileInfo // of the socket
	unlock func()
}

// NewEnd returns the End of the local proxy of a state directory. The caller is that proxy.
func NewEnd(stateDir string) *End { return &End{proxy: Proxy{Dir: stateDir}} }

// Listening notes which socket is this proxy's own. Call it when the proxy
// listens.
func (e *End) Listening() (err error) {
	e.ours, err = os.Lstat(e.proxy.Socket())
	return err
}

// Hide takes the lock under which local proxies start, which it keeps until Close, and moves
// the socket away. Commands that look for the proxy from now on wait for the lock and start a
// new proxy. The error is [lockfile.ErrLocked] if somebody is about to use this proxy. unhide
// undoes Hide, if the proxy does not stop after all.
//
// A proxy that nobody can find, since its socket or the whole state directory was removed, is
// hidden already. Hide leaves alone another proxy that has taken its place.
func (e *End) Hide() (unhide func(), err error) {
	unlock, err := lockfile.Lock(e.proxy.lock())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return func() {}, nil
	case err != nil:
		return nil, err
	}
	hidden, err := e.moveSocket()
	if err != nil {
		unlock()
		return nil, fmt.Errorf("hide the socket: %w", err)
	}
	e.unlock = func() {
		if hidden != "" {
			os.Remove(hidden)
		}
		unlock()
	}
	return func() {
		if hidden != "" {
			os.Rename(hidden, e.proxy.Socket())
		}
		e.unlock = nil
		unlock()
	}, nil
}

// moveSocket moves this proxy's socket to where nobody looks for it; "" if the socket is not at
// its place.
func (e *End) moveSocket() (hidden string, err error) {
	socket := e.proxy.Socket()
	switch now, err := os.Lstat(socket); {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(e.ours, now):
		return "", nil
	case err != nil:
		return "", err
	}
	hidden = socket + ".ending"
	return hidden, os.Rename(socket, hidden)
}

// Close removes the hidden socket and gives up the lock, if Hide succeeded and was not undone.
// Call it when the socket's listener is closed.
func (e *End) Close() {
	if e.unlock != nil {
		e.unlock()
	}
}
