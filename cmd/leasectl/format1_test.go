package main

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/holder/dial"
	v1 "github.com/leasectl/leasectl/internal/holder/v1"
	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/bolt"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated/unsteady"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// What the files and stores in testdata/format1 mean. From 1.0.0 on neither changes: a file that can no
// longer be read, or means something else, is a lease that is lost with an upgrade. A new format gets a
// directory of its own.
var (
	format1At     = time.Date(2026, 11, 22, 2, 58, 43, 515e6, time.UTC)
	format1Leases = []lockfile.Lease{{Name: "q-0", Generation: 17, Type: "q"}, {Name: "q-1", Generation: 18}}

	format1Handles = map[string]lockfile.Record{
		"held": {
			State: lockfile.HandleHeld, RequestID: "H7", Owner: "https://ci/job/7", Proxy: "http://proxy", Store: "S1", Seal: "5ea1", Adapter: "A1",
			Ask:   leaseapi.Ask{Type: "q", Count: 2, Key: "K", Coalesce: leaseapi.CoalesceJoin, Variant: "V", Priority: 4},
			Units: 5, Resizes: 6, TTL: 5 * time.Minute, Leases: format1Leases, SharedList: "/job/leases",
			AcquiredAt: format1At, ReleaseAt: format1At.Add(time.Hour), KeeperPID: 42,
		},
		"queued": {
			State: lockfile.HandleQueued, RequestID: "Q7", Proxy: "http://proxy", Replaces: format1Leases, ReplacesOf: "H7",
			Ask: leaseapi.Ask{Type: "q", Items: new(3), Key: "K", KeyMode: leaseapi.KeyRead, Overcommit: true},
		},
		"several":   {State: lockfile.HandleQueued, RequestID: "S7", Proxy: "http://proxy", Ask: leaseapi.Ask{Type: "q", Also: []leaseapi.Also{{Type: "r", Count: 1}}}},
		"releasing": {State: lockfile.HandleReleasing, RequestID: "R7", Proxy: "http://proxy", Leases: format1Leases[1:], Ask: leaseapi.Ask{Type: "q", Name: "q-1"}},
	}
	format1Intent = lockfile.Intent{
		ID: "I7", Kind: lockfile.KindExec, Request: "H7", Handle: "/job/held", Proxy: "http://proxy", Type: "q", Count: 2, Owner: "job-7",
		PID: 42, Begun: format1At, Left: true,
	}
	format1Grant = lockfile.Grant{
		Lease: lockfile.Lease{Name: "q-1", Generation: 18, Type: "q"}, Store: "S1", Adapter: "A1", RequestID: "H7", Owner: "job-7", At: format1At,
	}
	format1Shared = lockfile.SharedRecord{Name: "A", Boot: "b-1", Space: "pid:[1]", Rounds: []lockfile.Round{
		{
			ID: "R1", State: lockfile.RoundHeld, Handle: "/state/shared-R1", Type: "q", Count: 1, Proxy: "unix:///p", Owner: "vm shared A",
			Token: "0a1b2c3d", TokenFile: "/t", TTL: 5 * time.Minute, MaxUses: 100, Bound: 110, MaxAge: time.Hour,
			Leases: format1Leases, Adapter: "A1", Units: 2, Unit: "MiB", RequestID: "H7", Granted: 4 * time.Minute, Since: format1At, ExpiresAt: 50, EndsAt: 60,
			Uses: 5, Users: []int{1, 4}, RenewedAt: 10, RenewEvery: 20, Deadline: 30, Lingers: true, Peak: &leaseapi.Peak{Bytes: 7, Source: leaseapi.PeakOfCgroup},
			Service: &lockfile.Service{
				Command: "c", Ready: "r", Timeout: time.Minute, Grace: time.Second, Group: 7, Since: format1At,
				Variables: []string{"A=b"}, Over: "ended", Said: []string{"bye"}, LastsUntil: 9,
			},
		},
		{ID: "R2", State: lockfile.RoundAcquiring, By: 1, Handle: "/state/shared-R2", Type: "q", Items: new(3), Proxy: "unix:///p", Owner: "me", Uses: 1, Users: []int{1}, Lost: "why"},
	}}
	format1Held = v1.Held{
		Proxy: "unix:///v1", Name: "q-0", Generation: 17, Owner: "job-7", Handle: "/job/held", Request: "H7", At: format1At,
		State: v1.NameMissing, Since: format1At.Add(time.Hour), Why: "it forgot the name",
	}

	format1Ask = pool.Ask{
		Count: 2, Items: 3, Key: "K", Name: "n", Variant: "V", Coalesce: pool.Join, ReadsKey: true, HasItems: true, Weighted: true,
		Also: "r=1", Priority: 4, Overcommit: true,
	}
	format1Snapshot = pool.Snapshot{
		Clock: 1001, Generation: 99,
		Leases: []pool.Lease{
			{
				Name: "q-0", Type: "q", Generation: 17, Owner: "ci\x00job-7", RequestID: "H7", Ask: format1Ask, AskedType: "r", Units: 5, Resizes: 6,
				TTL: 5 * time.Minute, Granted: 11, ReleaseAt: 12, Expires: 13, Outcome: pool.OutcomeThrottled, Broken: "gone", Extended: true, OtherLost: true, At: format1At,
			},
			{Name: "q-1", Type: "q", Generation: 18, RequestID: "P7", Units: 1, TTL: time.Minute, Granted: 14, Provisional: true, At: format1At},
		},
		Ended: []pool.Ended{
			{ID: "unseen", Until: 1, Unseen: true},
			{ID: "withdrawn", Until: 2},
			{ID: "unconfirmed", Until: 3, Unconfirmed: true},
			{ID: "removed", Until: 4, Removed: "no: more"},
			{ID: "merged", Until: 5, Result: 4},
			{ID: "held", Until: 6, Unconfirmed: true, Lease: pool.EndedLease{Type: "q", Owner: "me", Generation: 16, Units: 2, Limit: 3, Full: true, Outcome: pool.OutcomeOK}},
		},
		Waiters: []pool.Waiter{{
			Request: pool.Request{ID: "W7", Type: "q", Owner: "me", Ask: format1Ask, TTL: time.Minute}, Units: 2, Arrival: 21, Arrived: 22, Follows: "X7",
			PriorityNow: 5, Older: 23, Overtaken: 24, Passed: "25 26", AlsoUnits: "r=2", HoldsUntil: 26, KeptUntil: 27,
		}},
		Locked:   []pool.Locked{{Name: "q-2", Type: "q", Units: 3, Key: "K", ReadsKey: true, Until: 31}},
		Paced:    []pool.Pacing{{Type: "q", Generation: 18, Start: 32, Count: 2}},
		Named:    []pool.Naming{{Type: "q", Last: 33}},
		Pauses:   []pool.Pause{{Type: "q", Reason: `a "quiet" hour`, Since: 34}},
		Reserved: []pool.Reservation{{Name: "q-3", Type: "q", Owner: "ops", Reason: "repair", Since: 35, At: format1At, Until: 36}},
		Reports: []pool.Reports{{
			Type:       "q",
			Adaptation: pool.Adaptation{Limit: 1, Wall: 2, Gate: 3, OK: 4, Cut: 5, Risen: 6, Suspect: 7, SuspectAt: 8, Suspects: 9, UsualThrottled: 10, UsualOK: 11},
			Moved:      pool.Move{At: 41, From: 42, To: 43, Owner: "me", Detail: "why"}, Tally: []pool.Tally{{Limit: 44, OK: 45, Throttled: 46}},
		}},
	}
)

// format1Database is the content of etcd, and of the tables in PostgreSQL.
type format1Database struct {
	Leader, Meta json.RawMessage
	Records      [][]byte // by number
}

func TestFormat1(t *testing.T) {
	dir := t.TempDir()
	check(t, os.CopyFS(dir, os.DirFS("../../testdata/format1")))
	same := func(what string, got, want any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, it means\n%+v, want\n%+v", what, err, got, want)
		}
	}
	for name, want := range format1Handles {
		h, err := lockfile.OpenHandle(filepath.Join(dir, name))
		check(t, err)
		got, err := h.Read()
		same(name, got, want, err)
	}
	var intents []lockfile.Intent
	err := lockfile.Journal(filepath.Join(dir, "intents")).SettleDead(t.Context(), func(in lockfile.Intent) bool {
		intents = append(intents, in)
		return false
	})
	same("intents", intents, []lockfile.Intent{format1Intent}, err)
	grants, _, err := lockfile.List(filepath.Join(dir, "leases")).Read()
	same("leases", grants, []lockfile.Grant{format1Grant}, err)
	shared, err := lockfile.Shared(filepath.Join(dir, "shared")).Read()
	same("shared", shared, format1Shared, err)
	held, err := v1.New(dir).Unsettled()
	same("version1", held, []v1.Held{format1Held}, err)
	same("version1.cell", v1.New(dir).ID(), "A1", nil)
	sealed := dial.New(dial.Options{}, dir, quiet{}).Sealed(lockfile.Record{
		RequestID: "R1", Proxy: "http://127.0.0.1:1", SharedList: "/tmp/leases", Seal: "448ca4fb2c7355fad507513e4652d71be742c046c6372c5aad25bdde72df1926",
	})
	same("key.cell", sealed, true, nil)

	st, err := bolt.Open(dir)
	check(t, err)
	defer st.Close()
	snap, err := st.Load()
	slices.SortFunc(snap.Leases, func(a, b pool.Lease) int { return cmp.Compare(a.Name, b.Name) })
	same("leases.db", snap, format1Snapshot, err)
	same("its id", st.ID(), "UMC7U3OMFZM3KQRS575PTT2N3P", nil)
	synctest.Test(t, func(t *testing.T) {
		lead, after := format1Lead(t, filepath.Join(dir, "database.json"))
		defer lead.Close()
		snap, err := lead.Load()
		same("database.json", snap, format1Snapshot, err)
		same("its id", lead.ID(), "QCY6IUWMPCMWG3U5AWBTMCN5YA", nil)
		if after < 15*time.Second {
			t.Errorf("another leader was deposed after %s, and had 15s", after)
		}
	})
}

// format1Lead takes over from the server that left a file, and returns how long that took.
func format1Lead(t *testing.T, file string) (store.Lead, time.Duration) {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	var left format1Database
	check(t, json.Unmarshal(text, &left))
	server := unsteady.New().Server(nil)
	commit := replicated.Commit{Leader: left.Leader, Meta: left.Meta}
	for i, value := range left.Records {
		commit.Writes = append(commit.Writes, replicated.Record{Number: uint64(i), Value: value})
	}
	_, _, err = server.Take(t.Context(), left.Leader, 0)
	check(t, err)
	_, _, err = server.Commit(t.Context(), &commit)
	check(t, err)
	e := replicated.New(replicated.Options{
		Database: server, Words: replicated.Words{Database: "memory", Store: "here"}, TTL: time.Second, Poll: time.Second, SinceBoot: server.SinceBoot,
		Bounds: replicated.Bounds{Writes: 99, Bytes: 1 << 20, Record: 1 << 19}, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() { e.Close() })
	began := time.Now()
	lead, err := e.Gain(t.Context())
	check(t, err)
	return lead, time.Since(began)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// quiet is a [dial.Reporter] that says nothing.
type quiet struct{}

func (quiet) Notef(string, ...any)  {}
func (quiet) Debugf(string, ...any) {}
