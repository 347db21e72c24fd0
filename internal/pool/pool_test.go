package pool

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const s = time.Second

// one returns a Set with the pool "t" of n names t-0, t-1 and so on.
func one(t testing.TB, n int) *Set {
	t.Helper()
	return with(t, Config{Type: "t", Names: numbered("t", n)})
}

// strictly lets nobody overtake a waiter that does not fit.
var strictly = &Decimal{}

// inOrder returns the Set of one, whose pool keeps strict order.
func inOrder(t testing.TB, n int) *Set {
	t.Helper()
	return with(t, Config{Type: "t", Names: numbered("t", n), Overtake: strictly})
}

func with(t testing.TB, configs ...Config) *Set {
	t.Helper()
	set, err := New(configs, Snapshot{}, PriorityAging)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// restarted returns the Set of a server with these pools that restarts after set.
func restarted(t rapid.TB, set *Set, configs ...Config) *Set {
	t.Helper()
	back, err := New(configs, set.Snapshot(), PriorityAging)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

func numbered(typ string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", typ, i)
	}
	return names
}

// req is a request for one name of "t".
func req(id string) Request { return Request{ID: id, Type: "t"} }

// must acquires and expects these names; none means that it must be queued.
func must(t testing.TB, set *Set, now time.Duration, q Request, names ...string) []Lease {
	t.Helper()
	leases, err := set.Acquire(now, q)
	if err != nil {
		t.Fatalf("acquire %q at %v: %v", q.ID, now, err)
	}
	if got := namesOf(leases); !slices.Equal(got, names) {
		t.Fatalf("acquire %q at %v got %q, want %q", q.ID, now, got, names)
	}
	return leases
}

func refuse(t testing.TB, set *Set, now time.Duration, q Request, want error) {
	t.Helper()
	if leases, err := set.Acquire(now, q); !errors.Is(err, want) {
		t.Fatalf("acquire %q at %v: %q, %v, want error %v", q.ID, now, namesOf(leases), err, want)
	}
}

func namesOf(leases []Lease) []string {
	var names []string
	for _, l := range leases {
		names = append(names, l.Name)
	}
	return names
}

// ref names a lease exactly.
func ref(l Lease) Ref { return Ref{Name: l.Name, Generation: l.Generation} }

// words lists the changes without numbers, and leaves out that a request waits or that the pace
// counts.
func words(changes []Change) []string {
	var all []string
	for _, c := range changes {
		switch c.Kind {
		case Granted:
			all = append(all, fmt.Sprintf("granted %s %v", c.ID, namesOf(c.Leases)))
		case Renewed:
			all = append(all, "renewed "+c.Lease.Name)
		case Delayed:
			all = append(all, "delayed "+c.Lease.Name)
		case Broken:
			all = append(all, fmt.Sprintf("broken %s: %s", c.Lease.Name, c.Lease.Broken))
		case Done:
			all = append(all, fmt.Sprintf("%s %s", c.Reason, c.Lease.Name))
		case Extended:
			all = append(all, "extended "+c.Lease.Name)
		case Joined:
			all = append(all, "joined "+c.Waiter.ID)
		case Resized:
			all = append(all, fmt.Sprintf("resized %s to %d", c.Lease.Name, c.Lease.Units))
		case Overtaken:
			all = append(all, fmt.Sprintf("overtaken %s %d", c.Waiter.ID, c.Waiter.Overtaken))
		case Moved:
			all = append(all, fmt.Sprintf("moved %s to %d", c.Waiter.ID, c.Waiter.PriorityNow))
		case NameReserved:
			all = append(all, "reserved "+c.Reserved.Name)
		case NameGivenBack:
			all = append(all, "given back "+c.Reserved.Name)
		case Missed:
			all = append(all, "missed "+c.Waiter.ID)
		case Returned:
			all = append(all, "returned "+c.Waiter.ID)
		case LockBegun:
			all = append(all, "locked "+c.Locked.Name)
		case LockOver:
			all = append(all, "unlocked "+c.Locked.Name)
		case Remembered:
			all = append(all, "remembered "+c.Ended.ID)
		case Forgotten:
			all = append(all, "forgotten "+c.Ended.ID)
		case Paused:
			all = append(all, fmt.Sprintf("paused %s: %s", c.Pause.Type, c.Pause.Reason))
		case Resumed:
			all = append(all, "resumed "+c.Pause.Type)
		case Dropped:
			all = append(all, fmt.Sprintf("dropped %s: %v", c.ID, c.Err))
		case LostOther:
			all = append(all, fmt.Sprintf("another lost of %v", namesOf(c.Leases)))
		}
	}
	return all
}

// changed expects these changes since the last call.
func changed(t testing.TB, set *Set, want ...string) {
	t.Helper()
	if got := words(set.Drain()); !slices.Equal(got, want) {
		t.Fatalf("changes:\n got %q\nwant %q", got, want)
	}
}
