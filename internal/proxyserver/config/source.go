package config

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Source is a part of the settings, read from files at the start and again when they change.
type Source struct {
	Name  string // of the flag that names the files, for messages and metrics
	Files []string

	// Apply puts the contents of the files into effect. They are in the order of Files, and then
	// of the files that the first one names.
	// After an error everything must be as it was.
	Apply func(texts [][]byte) error

	more func(first []byte) []string // further files that the text of the first names; nil: none

	piped bool        // a file is a pipe, which was read to its end by Start
	tried fingerprint // at the last attempt to apply the files, successful or not
	seen  fingerprint // at the last look
}

// fingerprint tells two states of files apart.
type fingerprint [sha256.Size]byte

// Start reads all sources for the first time. It waits until each file that is a pipe was
// written and closed, or ctx ends; after three seconds it calls warn. The error joins the
// errors of all sources, or is the cause of ctx's end.
func Start(ctx context.Context, sources []*Source, warn func(Warning)) error {
	var errs []error
	for _, s := range sources {
		if err := s.start(ctx, warn); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return errors.Join(errs...)
}

func (s *Source) start(ctx context.Context, warn func(Warning)) error {
	texts, print, err := s.read(func(file string) ([]byte, error) { return s.readFirst(ctx, file, warn) })
	if err != nil {
		return fmt.Errorf("--%s: %w", s.Name, err)
	}
	s.tried, s.seen = print, print
	return s.Apply(texts)
}

// readFirst reads a file of any kind to its end. Only ctx bounds how long it waits for a pipe.
func (s *Source) readFirst(ctx context.Context, file string, warn func(Warning)) ([]byte, error) {
	if !isPipe(file) {
		return readFile(file)
	}
	s.piped = true
	return readPipe(ctx, file, warn)
}

// look applies the files if they have changed and two looks in a row found the same contents,
// or in any case if must is true. tried tells whether it applied them, or failed to.
func (s *Source) look(must bool) (tried bool, err error) {
	if s.piped {
		return must, errPiped
	}
	texts, print, err := s.read(readAgain)
	settled := print == s.seen
	s.seen = print
	if !must && (print == s.tried || !settled) {
		return false, nil
	}
	s.tried = print
	if err == nil {
		err = s.Apply(texts)
	}
	return true, err
}

var errPiped = errors.New("a pipe was read to its end at the start, and cannot be read again: start the server anew")

// read returns the contents of the files, as readFile reads them, and their fingerprint. An
// error has a fingerprint too, so that an error that lasts is reported once.
func (s *Source) read(readFile func(file string) ([]byte, error)) (texts [][]byte, print fingerprint, err error) {
	sum := sha256.New()
	files := s.Files
	for i := 0; i < len(files); i++ {
		text, err := readFile(files[i])
		if err != nil {
			return nil, sha256.Sum256([]byte(err.Error())), err
		}
		if i == 0 && s.more != nil {
			files = append(slices.Clip(files), s.more(text)...)
		}
		texts = append(texts, text)
		each := sha256.Sum256(text)
		sum.Write(each[:])
	}
	return texts, fingerprint(sum.Sum(nil)), nil
}

// lookEvery is the time between two looks whether files have changed. A look reads the files,
// because time stamps may be wrong, and a mounted configuration changes by swapping a symlink.
// That takes microseconds.
const lookEvery = 2 * time.Second

// Watch looks at the sources every two seconds until ctx ends. After a value from now it
// applies all sources at once, changed or not. It calls report for each source that it applied,
// with nil, and for each that it could not apply, with the error.
func Watch(ctx context.Context, sources []*Source, now <-chan struct{}, report func(source string, err error)) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		must := false
		select {
		case <-ctx.Done():
			return
		case <-now:
			must = true
		case <-ticker.C:
		}
		for _, s := range sources {
			tried, err := s.look(must)
			if ctx.Err() != nil {
				return // the server stops, and may have refused the source for that reason
			}
			if tried {
				report(s.Name, err)
			}
		}
	}
}
