package recovery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/shared"
	v1 "github.com/leasectl/leasectl/internal/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// Files that are valid but for one field. Whatever an operation makes of such a file, it changes nothing but
// the state directory, the handle and the list that the user named.
func TestHostileFiles(t *testing.T) {
	for _, kind := range []struct {
		name  string
		write func(s *scene) (path string) // writes the files, and returns the one to alter
		do    func(s *scene)
	}{
		{"a handle that is held", func(s *scene) string { return s.writeHandle(s.record()) }, (*scene).useHandle},
		{"a handle that waits", func(s *scene) string { return s.writeHandle(s.waiting(lockfile.HandleQueued)) }, (*scene).useHandle},
		{"a handle that is released", func(s *scene) string { return s.writeHandle(s.waiting(lockfile.HandleReleasing)) }, (*scene).useHandle},
		{"a list", (*scene).writeList, (*scene).useList},
		{"an entry of the journal", (*scene).writeEntry, (*scene).recover},
		{"a handle of the state directory", (*scene).writeOwnHandle, (*scene).recover},
		{"a shared lease", (*scene).writeShared, (*scene).recover},
		{"a name at a version-1 proxy", (*scene).writeName, (*scene).recover},
	} {
		t.Run(kind.name, func(t *testing.T) {
			s := newScene(newWorld(t))
			path := kind.write(s)
			text := s.read(path)
			altered := append(alterations(t, s, text), alteration{field: "nothing", text: text})
			for _, a := range altered {
				s.clear()
				kind.write(s)
				s.write(path, string(a.text))
				before := s.outside()
				kind.do(s)
				s.holder.Close()
				after := s.outside()
				for name := range before {
					if after[name] != before[name] {
						t.Errorf("%s = %.100s: %s is %q, and was %q", a.field, a.value, name, after[name], before[name])
					}
					delete(after, name)
				}
				for name := range after {
					t.Errorf("%s = %.100s: %s was made", a.field, a.value, name)
				}
			}
			if len(altered) < 50 {
				t.Errorf("%d fields were altered", len(altered))
			}
		})
	}
}

// alteration is a document of which one field has another value.
type alteration struct {
	field string
	value string
	text  []byte
}

// alterations returns a document with other values in each of its fields, one at a time.
func alterations(t *testing.T, s *scene, text []byte) (all []alteration) {
	t.Helper()
	var doc any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	var walk func(field string, v any, set func(any))
	try := func(field string, was any, set func(any), values ...any) {
		for _, value := range values {
			set(value)
			text, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, alteration{field, fmt.Sprintf("%q", value), text})
		}
		set(was)
	}
	walk = func(field string, v any, set func(any)) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				walk(field+"."+name, v[name], func(to any) { v[name] = to })
			}
			try(field, v, set, nil)
		case []any:
			for i := range v {
				walk(field+"[]", v[i], func(to any) { v[i] = to })
			}
			try(field, v, set, nil)
		case string:
			try(field, v, set, "", "..", "../../precious", "../../../home/precious", s.path("home/precious"), s.path("home/conf"), s.path("home/leases"),
				"a\nb", nil)
		case json.Number:
			try(field, v, set, json.Number("-1"), json.Number("0"), json.Number("4611686018427387904"), "../../precious")
		case bool:
			try(field, v, set, !v)
		}
	}
	walk("", doc, func(to any) { doc = to })
	return all
}

// scene is a machine: a state directory, a checkout with a handle, a directory that steps share, and what else
// the user has.
type scene struct {
	w      *world
	root   string
	holder *holder.Holder
}

func newScene(w *world) *scene {
	w.T.Helper()
	s := &scene{w: w, root: w.T.TempDir()}
	for _, dir := range []string{"home", "home/history"} {
		s.mkdir(dir)
	}
	for _, name := range []string{"precious", "home/precious", "home/history/important", "home/history/precious"} {
		s.write(s.path(name), "precious\n")
	}
	for _, name := range []string{"home/conf", "home/leases"} { // the name of a lease may be a line of any file
		s.write(s.path(name), "one-0\nignore-scripts=true\n")
	}
	s.clear()
	return s
}

// clear begins anew with the state directory, the checkout and the directory that steps share.
func (s *scene) clear() {
	s.w.T.Helper()
	for _, dir := range []string{"state", "checkout", "steps"} {
		if err := os.RemoveAll(s.path(dir)); err != nil {
			s.w.T.Fatal(err)
		}
		s.mkdir(dir)
	}
	s.mkdir("state/keepers")
	s.holder = s.w.holderIn(s.path("state"))
}

func (s *scene) mkdir(name string) {
	s.w.T.Helper()
	if err := os.Mkdir(s.path(name), 0o700); err != nil {
		s.w.T.Fatal(err)
	}
}

func (s *scene) path(name string) string { return filepath.Join(s.root, name) }

func (s *scene) write(path, text string) {
	s.w.T.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.w.T.Fatal(err)
	}
}

func (s *scene) read(path string) []byte {
	s.w.T.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		s.w.T.Fatal(err)
	}
	return text
}

// outside returns all files but those of the state directory, the handle and the list, with what they
// contain.
func (s *scene) outside() map[string]string {
	s.w.T.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(s.root, func(path string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(path, s.root)
		switch {
		case err != nil:
			return err
		case rel == "/state":
			return filepath.SkipDir
		case strings.HasPrefix(rel, "/checkout/h"), strings.HasPrefix(rel, "/steps/leases"):
			return nil
		}
		all[rel] = d.Type().String()
		if d.Type().IsRegular() {
			all[rel] = string(s.read(path))
		}
		return nil
	})
	if err != nil {
		s.w.T.Fatal(err)
	}
	return all
}

func (s *scene) handle(path string) lockfile.Handle {
	s.w.T.Helper()
	h, err := lockfile.OpenHandle(s.path(path))
	if err != nil {
		s.w.T.Fatal(err)
	}
	return h
}

var sceneLeases = []lockfile.Lease{{Name: "one-0", Generation: 7, Type: "one"}}

// record is one of a strange handle: with all that a record has.
func (s *scene) record() lockfile.Record {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	return lockfile.Record{
		State: lockfile.HandleHeld, RequestID: "R7", Owner: "job-1", Proxy: s.w.Proxy.URL, Store: "S7", Seal: "5e", Adapter: "A7",
		Ask:   leaseapi.Ask{Type: "one", Items: new(1), Key: "k", KeyMode: leaseapi.KeyWrite, Coalesce: leaseapi.CoalesceJoin, Variant: "v", Priority: 1},
		Units: 1, Resizes: 1, TTL: time.Hour, Leases: sceneLeases, SharedList: s.path("steps/leases"), AcquiredAt: at, ReleaseAt: at, KeeperPID: 1,
	}
}

func (s *scene) waiting(state lockfile.HandleState) lockfile.Record {
	r := s.record()
	r.State, r.Leases, r.Replaces, r.ReplacesOf, r.Adapter, r.Store = state, nil, sceneLeases, "R6", "", ""
	r.Ask = leaseapi.Ask{Type: "one", Count: 1, Also: []leaseapi.Also{{Type: "two", Count: 1}}}
	return r
}

func (s *scene) writeHandle(r lockfile.Record) string {
	s.w.T.Helper()
	h := s.handle("checkout/h")
	s.w.Write(h, r)
	s.write(s.path("steps/leases"), "one-0\n")
	return h.Path() + ".json"
}

func (s *scene) writeOwnHandle() string {
	s.w.T.Helper()
	h := s.handle("state/lease-1")
	s.w.Write(h, s.holder.Dialer.Seal(s.waiting(lockfile.HandleReleasing)))
	return h.Path() + ".json"
}

func (s *scene) writeList() string {
	s.w.T.Helper()
	list := s.path("steps/leases")
	r := s.record()
	r.Adapter = ""
	if err := lockfile.List(list).Append(s.w.T.Context(), r.Grants()); err != nil {
		s.w.T.Fatal(err)
	}
	return list + ".json"
}

func (s *scene) writeEntry() string {
	s.w.T.Helper()
	s.writeHandle(s.record())
	e, err := lockfile.Journal(s.path("state/intents")).Begin(s.w.T.Context(), lockfile.Intent{
		ID: "I7", Kind: lockfile.KindRelease, Request: "R7", Handle: s.path("checkout/h"), Proxy: s.w.Proxy.URL, Type: "one", Count: 1, Owner: "job-1", PID: 1, Begun: time.Now(),
	})
	if err == nil {
		err = e.Leave()
	}
	if err != nil {
		s.w.T.Fatal(err)
	}
	return s.path("state/intents/I7.json")
}

func (s *scene) writeShared() string {
	s.w.T.Helper()
	s.writeHandle(s.record())
	s.mkdir("state/shared")
	file := lockfile.Shared(s.path("state/shared/0123456789abcdef0123456789abcdef"))
	err := file.Update(s.w.T.Context(), func(tx *lockfile.SharedTx) error {
		tx.Name, tx.Boot, tx.Space = "shared", "B7", "P7"
		tx.Rounds = []lockfile.Round{{
			ID: "N7", State: lockfile.RoundHeld, By: 1, Handle: s.path("checkout/h"), Type: "one", Count: 1, Items: new(1), Proxy: s.w.Proxy.URL, Owner: "job-1",
			Token: "t", TokenFile: s.path("steps/token"), TTL: time.Hour, MaxUses: 2, Bound: 3, MaxAge: time.Hour, Leases: sceneLeases, Units: 1, Unit: "1Mi",
			RequestID: "R7", Granted: time.Hour, ExpiresAt: 1, EndsAt: 1, Uses: 2, Users: []int{1, 2}, RenewedAt: 1, RenewEvery: 1, Deadline: 1, Lost: "lost",
			Service: &lockfile.Service{Command: "true", Ready: "x", Timeout: 1, Grace: 1, Group: 1 << 30, Variables: []string{"A=b"}, Over: "over", Said: []string{"said"}, LastsUntil: 1},
		}}
		return nil
	})
	if err != nil {
		s.w.T.Fatal(err)
	}
	return string(file) + ".json"
}

func (s *scene) writeName() string {
	s.w.T.Helper()
	s.writeHandle(s.record())
	s.mkdir("state/version1")
	cell := lockfile.CellIn(s.path("state/version1"), "0123456789abcdef0123456789abcdef")
	err := cell.Update(s.w.T.Context(), func(tx *lockfile.CellTx) error {
		return tx.Set(v1.Held{Proxy: s.w.Proxy.URL, Name: "one-0", Generation: 7, Owner: "job-1", Handle: s.path("checkout/h"), Request: "R7", At: time.Now(),
			State: v1.NameReleasing, Since: time.Now(), Why: "why"})
	})
	if err != nil {
		s.w.T.Fatal(err)
	}
	return string(cell)
}

// useHandle does with the handle all that commands do.
func (s *scene) useHandle() {
	ctx, cancel := context.WithTimeout(s.w.T.Context(), time.Minute)
	defer cancel()
	copied := s.copyHandle()
	h := s.handle("checkout/h")
	if r, err := h.Read(); err == nil {
		s.holder.NoticeKeeper(h, r)
		s.holder.ProxyOf(r)
		s.holder.Renew(ctx, h, r, 0)
		if r.RequestID != "" {
			s.holder.Report(ctx, r, holder.Outcome{Word: leaseapi.OutcomeOK})
		}
		s.holder.Resize(ctx, h, holder.Size{Count: 2})
	}
	s.acquire(ctx, h, holder.Anything)
	copied()
	if r, err := h.Read(); err == nil {
		s.holder.Release(ctx, h, r, holder.Delay{})
	}
	copied()
	s.recover()
}

// copyHandle returns a function that puts the handle back as it is.
func (s *scene) copyHandle() (back func()) {
	files, _ := filepath.Glob(s.path("checkout/h*"))
	texts := make(map[string][]byte)
	for _, f := range files {
		texts[f] = s.read(f)
	}
	return func() {
		for f, text := range texts {
			s.write(f, string(text))
		}
	}
}

func (s *scene) acquire(ctx context.Context, h lockfile.Handle, replaces func(lockfile.Record) bool) {
	if l, err := s.holder.Acquire(ctx, holder.Request{Ask: leaseapi.Ask{Type: "one", Count: 1}, Handle: h, Replaces: replaces}); err == nil {
		l.Release(ctx)
	}
}

func (s *scene) useList() {
	ctx, cancel := context.WithTimeout(s.w.T.Context(), time.Minute)
	defer cancel()
	if n, err := s.holder.Listed(ctx, lockfile.List(s.path("steps/leases"))); err == nil {
		s.holder.ReleaseNamed(ctx, n, holder.Delay{})
	}
	s.recover()
}

// recover settles what killed processes left, as the next acquire does, and as recover does.
func (s *scene) recover() {
	ctx, cancel := context.WithTimeout(s.w.T.Context(), time.Minute)
	defer cancel()
	s.acquire(ctx, s.handle("state/lease-2"), nil)
	shared.Files(s.holder)
	Run(ctx, s.holder, nil)
	Run(ctx, s.holder, []string{"I7", "one-0", "../../precious"})
}
