package lockfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func listIn(t *testing.T) (List, string) {
	dir := t.TempDir()
	return List(filepath.Join(dir, "leases")), dir
}

func TestList(t *testing.T) {
	const none = "none"
	for _, tt := range []struct {
		name, before string
		do           func(List) error
		after        string
	}{
		{"append to none", none, appending("a", "b"), "a\nb\n"},
		{"append to empty", "", appending("a"), "a\n"},
		{"append", "x\n", appending("a", "x"), "x\na\nx\n"},
		{"append to an open line", "x", appending("a"), "x\na\n"},
		{"append beside what is not ours", "# a/b\r\n\n\xff\n", appending("a"), "# a/b\r\n\n\xff\na\n"},
		{"append nothing", "x", appending(), "x"},
		{"append nothing to none", none, appending(), none},
		{"remove", "a\nb\nc\n", removing("b"), "a\nc\n"},
		{"remove all", "a\nb\n", removing("b", "a"), ""},
		{"remove one of two", "a\nb\na\n", removing("a"), "b\na\n"},
		{"remove two of three", "a\na\na\n", removing("a", "a"), "a\n"},
		{"remove the rest", "a\r\nb", removing("a", "b"), ""},
		{"remove what is not there", "a\r\n\n# x/y", removing("b", "x"), "a\r\n\n# x/y"},
		{"remove beside what is not ours", "# a\r\n\na\n\xff\nb", removing("a"), "# a\r\n\n\xff\nb"},
		{"remove a part of a name", "aa\na a\n", removing("a"), "aa\na a\n"},
		{"remove from none", none, removing("a"), none},
		{"remove nothing", "a\n", removing(), "a\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, dir := listIn(t)
			if tt.before != none {
				write(t, string(l), tt.before)
			}
			ok(t, tt.do(l))
			got := none
			if _, err := os.Lstat(string(l)); err == nil {
				got = read(t, string(l))
			}
			if got != tt.after {
				t.Errorf("it holds %q, want %q", got, tt.after)
			}
			for name := range strings.FieldsSeq(ls(t, dir)) {
				if name != "leases" && name != "leases.lock" {
					t.Errorf("it left %s", name)
				}
			}
		})
	}
}

func appending(names ...string) func(List) error {
	return func(l List) error { return l.Append(context.Background(), named(names...)) }
}

// named returns grants that have a name and nothing else.
func named(names ...string) (grants []Grant) {
	for _, name := range names {
		grants = append(grants, Grant{Lease: Lease{Name: name}})
	}
	return grants
}

// readNames is Read, but returns the names only.
func readNames(l List) (names []string, err error) {
	grants, _, err := l.Read()
	for _, g := range grants {
		names = append(names, g.Name)
	}
	return names, err
}

func removing(names ...string) func(List) error {
	return func(l List) error { return l.Remove(context.Background(), named(names...)) }
}

func TestListRead(t *testing.T) {
	l, _ := listIn(t)
	names, err := readNames(l)
	if err != nil || len(names) != 0 {
		t.Errorf("of none: %q, %v", names, err)
	}
	write(t, string(l), "a\r\n\n../b\nc")
	names, err = readNames(l)
	if !slices.Equal(names, []string{"a", "c"}) {
		t.Errorf("one bad line, and the names are %q", names)
	}
	wantError(t, err, string(l))
	wantError(t, err, "line 3")

	names, err = readNames(List(filepath.Join(t.TempDir(), "no", "leases")))
	if err != nil || len(names) != 0 {
		t.Errorf("without a directory: %q, %v", names, err)
	}
}

func TestListMode(t *testing.T) {
	l, _ := listIn(t)
	mode := func() os.FileMode {
		fi, err := os.Lstat(string(l))
		ok(t, err)
		return fi.Mode()
	}
	ok(t, appending("a")(l))
	if mode() != 0o600 {
		t.Errorf("made with mode %v", mode())
	}
	ok(t, os.Chmod(string(l), 0o644))
	ok(t, appending("b")(l))
	ok(t, removing("a")(l))
	if mode() != 0o644 {
		t.Errorf("the mode somebody gave it became %v", mode())
	}
}

func TestListFails(t *testing.T) {
	l, dir := listIn(t)
	write(t, string(l), "x\n")
	wantError(t, l.Append(t.Context(), named("a", "b/c")), "contains '/'")
	if got := read(t, string(l)); got != "x\n" {
		t.Errorf("after a bad name it holds %q", got)
	}
	ok(t, WithLock(t.Context(), string(l)+".lock", func() error {
		for name, do := range map[string]func(context.Context) error{
			"append": func(ctx context.Context) error { return l.Append(ctx, named("a")) },
			"remove": func(ctx context.Context) error { return l.Remove(ctx, named("x")) },
			"check":  l.CanAppend,
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s under somebody else's lock: %v", name, err)
			}
			cancel()
		}
		return nil
	}))
	nowhere := List(filepath.Join(dir, "no", "leases"))
	if err := appending("a")(nowhere); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("append without a directory: %v", err)
	}
	ok(t, removing("a")(nowhere))
	if _, err := os.Lstat(filepath.Join(dir, "no")); err == nil {
		t.Error("it made a directory")
	}
}

func TestListCanAppend(t *testing.T) {
	l, dir := listIn(t)
	ok(t, l.CanAppend(t.Context()))
	if got := ls(t, dir); got != "leases.lock" {
		t.Errorf("after a check of none there is %q", got)
	}
	write(t, string(l), "x")
	before := identity(t, string(l))
	ok(t, l.CanAppend(t.Context()))
	if got := ls(t, dir); got != "leases leases.lock" || identity(t, string(l)) != before {
		t.Errorf("a check changed something; there is %q", got)
	}
	write(t, string(l), strings.Repeat("x", maxFile-10))
	wantError(t, l.CanAppend(t.Context()), "more than")
	if err := List(filepath.Join(dir, "no", "leases")).CanAppend(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
}

// Processes that append and remove at the same time find their own names, and leave the names
// of others.
func TestListConcurrently(t *testing.T) {
	l, _ := listIn(t)
	write(t, string(l), "first")
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for j := range 5 {
				stays, goes := fmt.Sprintf("stays-%d-%d", i, j), fmt.Sprintf("goes-%d-%d", i, j)
				if err := errors.Join(appending(goes, stays)(l), removing(goes)(l)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	names, err := readNames(l)
	ok(t, err)
	var want []string
	for i := range 6 {
		for j := range 5 {
			want = append(want, fmt.Sprintf("stays-%d-%d", i, j))
		}
	}
	if !sameNames(names, append(want, "first")) {
		t.Errorf("it holds %q", names)
	}
}
