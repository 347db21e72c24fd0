package lockfile

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// grantOf returns the nth grant of a name in a store.
func grantOf(name, store string, n int) Grant {
	return Grant{
		Lease: Lease{Name: name, Generation: uint64(n)}, Store: store, RequestID: fmt.Sprintf("r%d", n), Owner: "me",
		At: fieldsAt.Add(time.Duration(n) * time.Second),
	}
}

// A list knows the grant of each line, and a removal removes the line of its grant, even if the
// name is there twice, or somebody else added or removed lines.
func TestListGrants(t *testing.T) {
	a1, a2, b1 := grantOf("a", "s", 1), grantOf("a", "s", 2), grantOf("b", "s", 1)
	a, x := named("a")[0], named("x")[0]
	l, dir := listIn(t)
	want := func(want ...Grant) {
		t.Helper()
		got, written, err := l.Read()
		ok(t, err)
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("it lists %+v\nwant %+v", got, want)
		}
		if time.Since(written) > time.Minute {
			t.Errorf("it was written at %v", written)
		}
	}
	ok(t, l.Append(t.Context(), []Grant{a1, b1}))
	ok(t, l.Append(t.Context(), []Grant{a2}))
	want(a1, b1, a2)
	ok(t, l.Remove(t.Context(), []Grant{grantOf("a", "s", 3), grantOf("b", "other", 1)}))
	want(a1, b1, a2)
	ok(t, l.Remove(t.Context(), []Grant{a2}))
	want(a1, b1)
	ok(t, l.Remove(t.Context(), []Grant{a2}))
	want(a1, b1)
	if got := read(t, string(l)); got != "a\nb\n" {
		t.Errorf("the lines are %q", got)
	}

	// Another program adds lines, and nothing more.
	ok(t, l.Append(t.Context(), []Grant{a2}))
	write(t, string(l), "x\na\n"+read(t, string(l)))
	want(x, a, a1, b1, a2)
	// A script takes lines out.
	write(t, string(l), "b\na\n")
	want(b1, a2)
	ok(t, l.Remove(t.Context(), []Grant{x, b1, a2}))
	want()
	if got := ls(t, dir); got != "leases leases.lock" {
		t.Errorf("empty, there is %q", got)
	}

	write(t, l.jsonPath(), `{"format":99}`)
	_, _, err := l.Read()
	wantNewer(t, err)
	wantNewer(t, l.CanAppend(t.Context()))
}

// The file beside a list stays small; the oldest grants are left out.
func TestListGrantsBounded(t *testing.T) {
	l, _ := listIn(t)
	var grants []Grant
	for n := range 2000 {
		g := grantOf(fmt.Sprintf("install-%d", n), "https://proxy.example.test", n+1)
		g.Owner = strings.Repeat("o", 200)
		grants = append(grants, g)
	}
	ok(t, l.Append(t.Context(), grants))
	fi, err := os.Stat(l.jsonPath())
	ok(t, err)
	if fi.Size() > listKnown || fi.Size() < listKnown/2 {
		t.Errorf("what is known takes %d bytes", fi.Size())
	}
	got, _, err := l.Read()
	ok(t, err)
	if len(got) != 2000 || !reflect.DeepEqual(got[0], Grant{Lease: Lease{Name: "install-0"}}) || !reflect.DeepEqual(got[1999], grants[1999]) {
		t.Errorf("%d, the first %+v, the last %+v", len(got), got[0], got[len(got)-1])
	}
	if text := read(t, l.jsonPath()); !json.Valid([]byte(text)) {
		t.Error("it is no JSON")
	}
}

func TestGrantIs(t *testing.T) {
	named := func(generation uint64, request string) Grant {
		return Grant{Lease: Lease{Name: "a", Generation: generation}, Store: "S", RequestID: request}
	}
	for _, tt := range []struct {
		g, o Grant
		is   bool
	}{
		{named(1, ""), named(1, ""), true},
		{named(1, "r"), named(2, "r"), false},
		{named(1, "r"), named(1, "s"), true},
		{named(0, "r"), named(2, "r"), true},
		{named(0, "r"), named(2, "s"), false},
		{named(0, "r"), named(0, "r"), true},
		{named(0, ""), named(0, ""), false},
		{named(0, ""), named(1, ""), false},
		{named(1, ""), Grant{Lease: Lease{Name: "b", Generation: 1}, Store: "S"}, false},
		{named(1, ""), Grant{Lease: Lease{Name: "a", Generation: 1}, Store: "T"}, false},
	} {
		if tt.g.Is(tt.o) != tt.is || tt.o.Is(tt.g) != tt.is {
			t.Errorf("%+v and %+v: not %v", tt.g, tt.o, tt.is)
		}
	}
}
