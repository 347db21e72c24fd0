package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
)

// Source is what is read from files at the start, and again when they change.
type Source struct {
	Name  string // of the flag that names the files, for messages and metrics
	Files []string

	// Take takes up what the files hold, in their order. After an error
	// everything stays as it was.
	Take func(texts [][]byte) error

	taken fingerprint // of what Take was called with last, whatever it returned
	seen  fingerprint // of what the last look found
}

// fingerprint tells two states of files apart.
type fingerprint [sha256.Size]byte

// Start reads all sources for the first time. The error is a join of all that is
// wrong with them.
func Start(sources []*Source) error {
	var errs []error
	for _, s := range sources {
		if err := s.start(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Source) start() error {
	texts, print, err := s.read()
	if err != nil {
		return fmt.Errorf("--%s: %w", s.Name, err)
	}
	s.taken, s.seen = print, print
	return s.Take(texts)
}

// look takes the files up if they have changed and two looks found the same, or
// in any case if it must. tried tells whether it took them up, or failed to.
func (s *Source) look(must bool) (tried bool, err error) {
	texts, print, err := s.read()
	settled := print == s.seen
	s.seen = print
	if !must && (print == s.taken || !settled) {
		return false, nil
	}
	s.taken = print
	if err == nil {
		err = s.Take(texts)
	}
	return true, err
}

// read returns what the files hold. An error has a fingerprint too, so that one
// that lasts is reported once.
func (s *Source) read() (texts [][]byte, print fingerprint, err error) {
	sum := sha256.New()
	for _, file := range s.Files {
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
