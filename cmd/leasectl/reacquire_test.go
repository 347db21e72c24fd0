package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// kept is a lease in a handle of its own, for a row of the table.
type kept struct {
	*world
	path string
}

func (k kept) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := k.Command(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("leasectl %v: %v\n%s", args, err, &stderr)
	}
	return stderr.String()
}

// record is what the handle has.
func (k kept) record(t *testing.T) (r lockfile.Record) {
	t.Helper()
	text, err := os.ReadFile(k.path + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// left is how long the lease lasts unless it is renewed, in whole minutes as the server says.
func (k kept) left() time.Duration {
	for _, l := range k.Pool("many").Leases {
		if l.Owner == k.record(k.T).Owner {
			return time.Duration(l.ExpiresIn).Round(time.Minute)
		}
	}
	return 0
}

// What docs/handles.md says that reacquire and renew keep of a lease, row by row.
func TestReacquireIsTheSameLeaseAnew(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(config, []byte("resources:\n- {type: many, min-count: 90, max-count: 90}\n- {type: other, names: [other-0]}\n- {type: mem, units: 90, overcommit: 9}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorldOf(t, clitest.Build(t, ""), "--config", config)
	shared := w.Path("shared")
	if err := os.Mkdir(shared, 0o700); err != nil {
		t.Fatal(err)
	}
	w.Env = append(w.Env, "SHARED_DIR="+shared)
	pid, endOwner := w.Owner()
	rows := map[string]struct {
		acquire string // flags beside --type many
		same    func(k kept, before, now lockfile.Record) bool
		change  string // flags of another reacquire
		says    string // what that one prints
	}{
		"`--type`, `--also`": {"--also other", func(_ kept, before, now lockfile.Record) bool {
			return before.Type == now.Type && slices.Equal(before.Also, now.Also) && len(now.Leases) == 2
		}, "--type mem", "type mem, was many; also none, was other; count 1, was 2"},
		"`--count`, `--items`": {"--count 3", func(_ kept, _, now lockfile.Record) bool { return len(now.Leases) == 3 },
			"--count 2", "count 2, was 3"},
		"`--key`, `--key-mode`": {"--key K --key-mode read", func(_ kept, _, now lockfile.Record) bool { return now.Key == "K" && now.KeyMode == "read" },
			"--key L", "key L (read), was K (read)"},
		"`--name`":       {"--name many-7", func(_ kept, _, now lockfile.Record) bool { return now.Name == "many-7" }, "--name many-8", "name many-8, was many-7"},
		"`--priority`":   {"--priority 3", func(_ kept, _, now lockfile.Record) bool { return now.Priority == 3 }, "--priority 0", "priority none, was 3"},
		"`--overcommit`": {"--type mem --count 2 --overcommit", func(_ kept, _, now lockfile.Record) bool { return now.Overcommit }, "--overcommit=false --count 1", "count 1, was 2"},
		"`--ttl`": {"--ttl 8h", func(k kept, _, now lockfile.Record) bool { return now.TTL == 8*time.Hour && k.left() == 8*time.Hour },
			"--ttl 1h", "ttl 1h, was 8h"},
		"`--owner`": {"--owner joe", func(_ kept, _, now lockfile.Record) bool { return now.Owner == "joe" }, "--owner jim", "owner jim, was joe"},
		"`--scope test`": {"--scope test", func(_ kept, _, now lockfile.Record) bool {
			list, err := os.ReadFile(filepath.Join(shared, "leases"))
			return err == nil && string(list) == now.Leases[0].Name+"\n"
		}, "--scope step", "scope none, was " + filepath.Join(shared, "leases")},
		"`--owner-pid`": {"--owner-pid " + strconv.Itoa(pid), func(_ kept, _, now lockfile.Record) bool {
			return now.Terms.OwnerPID == pid && now.KeeperPID != 0 && clitest.Lives(now.KeeperPID) && now.TTL == defaultExecTTL
		}, "", ""},
		"`--release-after`": {"--release-after 1h", func(_ kept, _, now lockfile.Record) bool {
			return now.ReleaseAt.Sub(now.AcquiredAt).Round(time.Minute) == time.Hour
		}, "--release-after 2h", "release-after 2h, was 1h"},
		"a late release of `release --delay --detach`": {"", nil, "", "the late release of "},
	}
	text, err := os.ReadFile("../../docs/handles.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| of the lease | `reacquire` | `renew` |\n|---|---|---|\n")
	table, _, _ = strings.Cut(strings.TrimRight(table, "\n"), "\n\n")
	written := make(map[string]bool)
	for i, line := range strings.Split(table, "\n") {
		what, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		row, known := rows[what]
		if written[what] = true; !known {
			t.Errorf("docs/handles.md has a row %q that nothing shows", what)
			continue
		}
		t.Run(what, func(t *testing.T) {
			k := kept{w, w.Path(fmt.Sprintf("row%d", i))}
			acquire := append([]string{"acquire", "--handle", k.path, "--type", "many"}, strings.Fields(row.acquire)...)
			if !strings.Contains(row.acquire, "--owner ") {
				acquire = append(acquire, "--owner", fmt.Sprintf("row%d", i))
			}
			if strings.Contains(row.acquire, "--type") {
				acquire = slices.Delete(acquire, 3, 5)
			}
			k.run(t, acquire...)
			if row.same == nil {
				k.run(t, "release", "--handle", k.path, "--delay", "1h", "--detach")
				k.run(t, "renew", "--handle", k.path)
				if k.record(t).ReleaseAt.IsZero() {
					t.Error("renew cancelled the late release")
				}
			}
			for _, again := range []string{"renew", "reacquire", "reacquire"} {
				if row.same == nil {
					break
				}
				before := k.record(t)
				said := k.run(t, again, "--handle", k.path)
				if now := k.record(t); !row.same(k, before, now) || now.Owner != before.Owner || (again == "renew") != (now.RequestID == before.RequestID) {
					t.Errorf("after %s the handle has %+v, before %+v", again, now, before)
				}
				if strings.Contains(said, "unlike the lease before") {
					t.Errorf("%s changed something: %s", again, said)
				}
			}
			if row.says == "" {
				return
			}
			said := k.run(t, append([]string{"reacquire", "--handle", k.path}, strings.Fields(row.change)...)...)
			if !strings.Contains(said, "unlike the lease before: "+row.says) {
				t.Errorf("reacquire %s says %q, want %q", row.change, said, row.says)
			}
		})
	}
	for what := range rows {
		if !written[what] {
			t.Errorf("docs/handles.md has no row %q", what)
		}
	}
	// The keeper of the new lease is as good as that of the old one was.
	endOwner()
	w.Await("the end of the lease whose owner process was killed", func() bool {
		return !slices.ContainsFunc(w.Pool("many").Leases, func(l leaseapi.PoolLease) bool { return l.Owner == "row9" })
	})
}
