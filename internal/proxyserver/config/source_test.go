package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A changed file is applied once, when two looks found the same content, and not again until
// it changes. On request it is applied at once.
func TestLook(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var taken []string
	bad := errors.New("bad")
	s := &Source{Files: []string{file}, Apply: func(texts [][]byte) error {
		taken = append(taken, string(texts[0]))
		if string(texts[0]) == "bad" {
			return bad
		}
		return nil
	}}
	look := func(must, want bool, wantErr error, now ...string) {
		t.Helper()
		taken = nil
		looked, err := s.look(must)
		if looked != want || !errors.Is(err, wantErr) || fmt.Sprint(taken) != fmt.Sprint(now) {
			t.Errorf("looked %v, %v, took %v, want %v, %v, %v", looked, err, taken, want, wantErr, now)
		}
	}
	write("one")
	if err := s.start(t.Context(), nil); err != nil || len(taken) != 1 {
		t.Fatal(err, taken)
	}
	look(false, false, nil)
	write("tw") // it is being written
	look(false, false, nil)
	write("two")
	look(false, false, nil)
	look(false, true, nil, "two")
	look(false, false, nil)
	look(true, true, nil, "two")
	write("bad")
	look(true, true, bad, "bad")
	look(false, false, nil) // the error has been reported
	write("two")
	look(false, false, nil)
	look(false, true, nil, "two")
	os.Remove(file)
	look(false, false, nil)
	look(false, true, os.ErrNotExist)
	look(false, false, nil)
}
