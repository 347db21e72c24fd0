package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/proxyserver"
	"github.com/leasectl/leasectl/trap"
)

// lookEvery is how often serve looks whether its files have changed. A look
// reads them: time stamps may lie, and a mounted configuration changes by
// swapping a symlink. It takes microseconds.
const lookEvery = 2 * time.Second

// source is what serve reads from files when it starts, and again when these
// change.
type source struct {
	name  string // for messages and metrics
	files []string
	take  func(texts [][]byte) error // an error: all stays as it was

	taken fingerprint // what take had last, whatever came of it
	seen  fingerprint // what was there at the last look
}

// fingerprint tells two states of files apart.
type fingerprint [sha256.Size]byte

// read returns what the files hold.
func (s *source) read() (texts [][]byte, v fingerprint, err error) {
	sum := sha256.New()
	for _, file := range s.files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, sha256.Sum256([]byte(err.Error())), err
		}
		texts = append(texts, text)
		each := sha256.Sum256(text)
		sum.Write(each[:])
	}
	return texts, fingerprint(sum.Sum(nil)), nil
}

// start takes the files up for the first time.
func (s *source) start() error {
	texts, v, err := s.read()
	if err != nil {
		return fmt.Errorf("--%s: %w", s.name, err)
	}
	s.taken, s.seen = v, v
	return s.take(texts)
}

// look takes the files up if they have changed since, or whatever they hold if
// it must. A change counts when it has been there for two looks: a file that is
// being written may be valid at any length, with pools missing at its end.
func (s *source) look(must bool) (looked bool, err error) {
	texts, v, err := s.read()
	settled := v == s.seen
	s.seen = v
	if !must && (v == s.taken || !settled) {
		return false, nil
	}
	s.taken = v
	if err == nil {
		err = s.take(texts)
	}
	return true, err
}

// watch looks at the sources every few seconds, and at once after a hangup,
// until ctx ends.
func watch(ctx context.Context, sources []*source, server *proxyserver.Server, hangups <-chan struct{}) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		must := false
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			must = true
		case <-ticker.C:
		}
		for _, s := range sources {
			if looked, err := s.look(must); looked {
				server.Reloaded(s.name, err)
			}
		}
	}
}

// hangups makes SIGHUP ask for a reload instead of ending the program. One that
// comes while another waits asks for nothing more.
func (a *app) hangups() (asked <-chan struct{}, restore func()) {
	ask := make(chan struct{}, 1)
	remove := a.chain.OnSignal(func(e trap.Event) error {
		if e.Signal == syscall.SIGHUP {
			select {
			case ask <- struct{}{}:
			default:
			}
		}
		return nil
	})
	a.staysOnHangup.Store(true)
	return ask, func() {
		a.staysOnHangup.Store(false)
		remove()
	}
}

// startAll says all that is wrong with the files.
func startAll(sources []*source) error {
	var errs []error
	for _, s := range sources {
		if err := s.start(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
