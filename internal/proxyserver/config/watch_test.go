package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A changed file is reported once, when two looks found the same content. On request all files
// are reported, changed or not. After the end of ctx nothing is reported.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var sources []*Source
		write := func(name, text string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"a", "b"} {
			write(name, "good")
			sources = append(sources, &Source{Name: name, Files: []string{filepath.Join(dir, name)}, Apply: func(texts [][]byte) error {
				if text := string(texts[0]); text != "good" {
					return fmt.Errorf("%s is %s", name, text)
				}
				return nil
			}})
		}
		if err := Start(t.Context(), sources, nil); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var reports []string
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(reports, want) {
				t.Errorf("reports %q, want %q", reports, want)
			}
			reports = nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		now, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			Watch(ctx, sources, now, func(source string, err error) {
				mu.Lock()
				defer mu.Unlock()
				reports = append(reports, fmt.Sprint(source, ": ", err))
			})
		}()
		time.Sleep(10 * lookEvery)
		expect()
		write("b", "bad")
		time.Sleep(lookEvery)
		expect()
		time.Sleep(10 * lookEvery)
		expect("b: b is bad")
		write("b", "good")
		now <- struct{}{}
		expect("a: <nil>", "b: <nil>")
		cancel()
		<-ended
		write("a", "bad")
		time.Sleep(10 * lookEvery)
		expect()
	})
}

// A source that fails because the server stops is not reported, and no source after it is read.
func TestWatchOfAStop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var taken []string
	source := func(name string) *Source {
		return &Source{Name: name, Files: []string{file}, Apply: func([][]byte) error {
			taken = append(taken, name)
			cancel()
			return errors.New("the server is stopping")
		}}
	}
	now := make(chan struct{}, 1)
	now <- struct{}{}
	Watch(ctx, []*Source{source("a"), source("b")}, now, func(source string, err error) { t.Errorf("%s: %v", source, err) })
	if !slices.Equal(taken, []string{"a"}) {
		t.Errorf("taken: %q", taken)
	}
}
