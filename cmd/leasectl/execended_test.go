package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/leaseapi"
)

// What another call does to the lease of a running exec either ends it, and exec says so with 76, or
// leaves exec a lease. The command may give its own lease back by its handle: that is meant. At the end
// of an exec nothing is held that it took, or that its command put into a handle of exec's own.
func TestExecWhoseLeaseAnotherCallEnds(t *testing.T) {
	t.Parallel()
	const other = `lease lost: "%s-0" \(held-by-other\): stopping the command`
	const lost = `lease lost: "%s-0" \(released\): stopping the command`
	const late = `lease lost: "%s-0" \(released( late, at [0-9:]+)?\): stopping the command` // a renewal may tell before
	// It gives back what somebody else could have only later.
	const inTime = `(?s)lease lost: "%s-0" \(released late, at [0-9:]+\): stopping the command.*released %s-0`
	// Of the commands, $T is the type, the owner and the beginning of the names, $H the handle of the exec, $ID its request.
	tests := []struct {
		name    string
		units   bool   // the pool is a counted one
		flags   string // of the exec
		inside  string // what the command runs before it waits for the others
		act     string // what somebody else runs meanwhile
		request bool   // somebody releases the request of the exec
		code    int
		says    string   // what exec says; %s is the type
		held    []string // afterwards
	}{
		{name: "release by handle", act: `leasectl release --handle "$H"`, code: exitLost, says: lost},
		{name: "release by a handle that the user named", flags: "--handle %s.h", act: `leasectl release --handle "$H"`, code: exitLost, says: lost},
		{name: "release by handle from elsewhere", flags: "--handle %s.h", act: `elsewhere release --handle "$H"`, code: exitLost, says: lost},
		{name: "late release by handle", act: `leasectl release --handle "$H" --delay 1s --detach`, code: exitLost, says: late},
		{name: "release by name", act: `leasectl release --names $T-0`, code: exitLost, says: lost},
		{name: "release by name from elsewhere", act: `elsewhere release --names $T-0`, code: exitLost, says: lost},
		{name: "late release by name from elsewhere", act: `elsewhere release --names $T-0 --delay 1s --detach`, code: exitLost, says: late},
		{name: "late release that exec hears of in time", flags: "--grace-period 4s", act: `elsewhere release --names $T-0 --delay 12s --detach`, code: exitLost, says: inTime},
		{name: "release by list", flags: "--scope test", act: `leasectl release --scope test`, code: exitLost, says: lost},
		{name: "release of all", act: `leasectl release --all --owner $T`, code: exitLost, says: lost},
		{name: "release of all from elsewhere", act: `elsewhere release --all --owner $T`, code: exitLost, says: lost},
		{name: "reacquire", flags: "--handle %s.h", act: `leasectl reacquire --handle "$H"`, code: exitLost, says: other, held: []string{"%s-0"}},
		{name: "reacquire from elsewhere", flags: "--handle %s.h", act: `elsewhere reacquire --handle "$H"`, code: exitLost, says: other, held: []string{"%s-0"}},
		{name: "break", act: `leasectl break $T-0 --now --reason test`, code: exitLost, says: `lease lost: "%s-0" \(broken: test\): stopping the command`},
		{name: "reserve", act: `leasectl reserve $T-0 --reason test`},
		{name: "reserve from elsewhere", act: `elsewhere reserve $T-0 --reason test`},
		{name: "renew", act: `leasectl renew --handle "$H"`},
		{name: "renew from elsewhere", flags: "--handle %s.h", act: `elsewhere renew --handle "$H"`},
		{name: "move", act: `! leasectl move "$ID" --priority 9 --reason test`},
		{name: "release by request", request: true, code: exitLost, says: lost},
		{name: "resize", units: true, flags: "--count 2", act: `leasectl resize --handle "$H" --count 1 && leasectl resize --handle "$H" --count 3`},
		{name: "resize from elsewhere", units: true, flags: "--count 2 --handle %s.h", act: `elsewhere resize --handle "$H" --count 1`},
		{name: "resize, and release of all from elsewhere", units: true, flags: "--count 2", act: `leasectl resize --handle "$H" --count 1 && elsewhere release --all --owner $T`,
			code: exitLost, says: `lease lost: "%s-\d+" \(released\): stopping the command`},
		{name: "resize, and release by handle", units: true, flags: "--count 2", act: `leasectl resize --handle "$H" --count 3 && leasectl release --handle "$H"`,
			code: exitLost, says: `lease lost: "%s-\d+" \(released\): stopping the command`},
		{name: "inside: resize", units: true, flags: "--count 2", inside: `leasectl resize --handle "$H" --count 1`},
		{name: "inside: resize, and release by handle", units: true, flags: "--count 2", inside: `leasectl resize --handle "$H" --count 3 && leasectl release --handle "$H"`},
		{name: "inside: break", inside: `leasectl break $T-0 --now --reason test`, code: exitLost, says: `lease lost: "%s-0" \(broken: test\): stopping the command`},
		{name: "inside: reserve", inside: `leasectl reserve $T-0 --reason test`},
		{name: "inside: release by handle", inside: `leasectl release --handle "$H"`},
		{name: "inside: release by a handle that the user named", flags: "--handle %s.h", inside: `leasectl release --handle "$H"`},
		{name: "inside: late release", inside: `leasectl release --handle "$H" --delay 1s --detach`},
		{name: "inside: late release that exec hears of in time", inside: `leasectl release --handle "$H" --delay 8s --detach`},
		{name: "inside: late release, and a release by name", inside: `leasectl release --handle "$H" --delay 1h --detach`, act: `leasectl release --names $T-0`, code: exitLost, says: lost},
		{name: "inside: release by name", inside: `leasectl release --names $T-0`, code: exitLost, says: lost},
		{name: "inside: release of all", inside: `leasectl release --all --owner $T`, code: exitLost, says: lost},
		{name: "inside: reacquire", inside: `leasectl reacquire --handle "$H"`, says: `released %s-0`},
		{name: "inside: reacquire twice", inside: `leasectl reacquire --handle "$H"; leasectl reacquire --handle "$H"`, says: `released %s-0`},
		{name: "inside: reacquire that waits", inside: `leasectl reacquire --handle "$H" --count 2 --type two &`},
		{name: "inside: release, and acquire", inside: `leasectl release --handle "$H"; leasectl acquire --type $T --handle "$H"`, says: `released %s-0`},
		{name: "inside: reacquire into a handle that the user named", flags: "--handle %s.h", inside: `leasectl reacquire --handle "$H"`,
			says: `handle .* now holds %s-0, which its command took: leasectl release --handle`, held: []string{"%s-0"}},
		{name: "inside: reacquire, and another attempt", flags: "--attempts 2 --retry-on 4", inside: `test -e $T.again || { touch $T.again; leasectl reacquire --handle "$H"; exit 4; }`,
			says: `attempt 1 of 2 ended`},
	}
	config := "resources:\n- {type: two, names: [two-0, two-1]}\n"
	for i, tt := range tests {
		has := fmt.Sprintf("names: [t%d-0]", i)
		if tt.units {
			has = "units: 3"
		}
		config += fmt.Sprintf("- {type: t%d, %s}\n", i, has)
	}
	pools := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(pools, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorldOf(t, clitest.Build(t, ""), "--config", pools)
	w.Run(0, "acquire", "--type", "two", "--handle", w.Path("two")) // so that nobody gets both
	for name, text := range map[string]string{
		"leasectl.sh": "export LEASE_PROXY_SERVER_URL LEASECTL_STATE_DIR\nleasectl() { '" + w.Program + "' \"$@\"; }\nelsewhere() { LEASECTL_STATE_DIR=$PWD/elsewhere '" + w.Program + "' \"$@\"; }\n",
		"inside.sh":   ". ./leasectl.sh\nH=$LEASECTL_HANDLE\neval \"$1\"\necho \"$H\" >$T.new\nmv $T.new $T.up\nuntil test -e $T.go; do sleep 0.02; done\n",
		"outside.sh":  ". ./leasectl.sh\nH=$(cat $T.up)\nID=$(sed -n 's/.*\"request_id\": *\"\\([A-Z0-9]*\\)\".*/\\1/p' \"$H.json\")\neval \"$1\"\n",
	} {
		if err := os.WriteFile(w.Path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	of := func(i int, text string) string { return strings.ReplaceAll(text, "%s", fmt.Sprintf("t%d", i)) }
	runs := make([]*endedExec, len(tests))
	for i, tt := range tests { // all at once, since each waits for its renewals
		typ := of(i, "%s")
		r := &endedExec{w: w, name: tt.name, typ: typ, ended: make(chan int, 1)}
		runs[i] = r
		shared := w.Path(typ + ".shared")
		if err := os.Mkdir(shared, 0o700); err != nil {
			t.Fatal(err)
		}
		r.env = append(slices.Clone(w.Env), "T="+typ, "LEASECTL_OWNER="+typ, "SHARED_DIR="+shared)
		args := append([]string{"exec", "--verbose", "--type", typ, "--ttl", "10s", "--grace-period", "1s"}, strings.Fields(of(i, tt.flags))...)
		r.start(append(args, "--", "sh", "inside.sh", tt.inside)...)
	}
	for i, tt := range tests {
		r := runs[i]
		r.await("the command to start", func() bool { _, err := os.Stat(w.Path(r.typ + ".up")); return err == nil || len(r.ended) > 0 })
		if tt.request {
			tt.act = `echo "$ID"`
		}
		if tt.act != "" {
			act := w.Command()
			act.Path, act.Args, act.Env = "/bin/sh", []string{"sh", "outside.sh", tt.act}, r.env
			out, err := act.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", tt.name, err, out)
			}
			if tt.request {
				id := strings.TrimSpace(string(out))
				if _, err := w.Client.Release(t.Context(), leaseapi.ReleaseRequest{RequestIDs: []string{id}}); err != nil {
					t.Fatalf("%s: %v", tt.name, err)
				}
			}
		}
		r.renewed = strings.Count(r.stderr.String(), "renewed ")
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := runs[i]
			if tt.code == 0 {
				r.await("a renewal after that", func() bool {
					said := r.stderr.String()
					return strings.Contains(said, "given back by its command") || strings.Count(said, "renewed ") > r.renewed+1 || len(r.ended) > 0
				})
				if err := os.WriteFile(w.Path(r.typ+".go"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r.await("exec to end", func() bool { return len(r.ended) > 0 })
			if code := <-r.ended; code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			said := r.stderr.String()
			if !regexp.MustCompile(of(i, tt.says)).MatchString(said) {
				t.Errorf("it did not say %q", of(i, tt.says))
			}
			if strings.Contains(said, "is not released") {
				t.Error("it says that a lease is not released")
			}
			var held []string
			for _, l := range w.Pool(r.typ).Leases {
				held = append(held, l.Name)
			}
			if want := of(i, strings.Join(tt.held, " ")); want != strings.Join(held, " ") {
				t.Errorf("held afterwards: %v, want %s", held, want)
			}
			if t.Failed() {
				t.Logf("exec said:\n%s", said)
			}
		})
	}
	w.Run(0, "release", "--handle", w.Path("two"))
}

// endedExec is an exec that runs, and whose lease somebody may end.
type endedExec struct {
	w         *world
	name, typ string
	env       []string
	stderr    clitest.LiveLog
	ended     chan int // receives its exit code
	renewed   int      // how often it had renewed its lease when somebody acted
}

func (r *endedExec) start(args ...string) {
	r.w.T.Helper()
	cmd := r.w.Command(args...)
	cmd.Env, cmd.Stderr = r.env, &r.stderr
	if err := cmd.Start(); err != nil {
		r.w.T.Fatal(err)
	}
	go func() { r.ended <- clitest.ExitCode(cmd.Wait()) }()
}

func (r *endedExec) await(what string, so func() bool) {
	r.w.T.Helper()
	clitest.Await(r.w.T, &r.stderr, r.name+": "+what, so)
}

// An operator takes one of several leases away. Its exec says so and, with --optional, goes on under the others,
// as the keeper of an acquire does: they are renewed.
func TestOneLostLeaseOfSeveral(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "exec=2", "keeper=2")
	r := &endedExec{w: w, name: "exec", env: w.Env, ended: make(chan int, 1)}
	r.start("exec", "--type", "exec", "--count", "2", "--ttl", "10s", "--optional", "--", "sh", "-c", "until test -e go; do sleep 0.02; done")
	owner, end := w.Owner()
	w.Run(0, "acquire", "--type", "keeper", "--count", "2", "--ttl", "10s", "--owner-pid", strconv.Itoa(owner))
	kinds := []string{"exec", "keeper"}
	ends := make(map[string]time.Time) // of the lease that is left, when the other was broken
	for _, kind := range kinds {
		r.await("the leases of "+kind, func() bool {
			leases := w.Pool(kind).Leases
			return len(leases) == 2 && !leases[1].Provisional
		})
		ends[kind] = w.Pool(kind).Leases[1].ExpiresAt
		w.Run(0, "break", kind+"-0", "--now", "--reason", "test")
	}
	for _, kind := range kinds {
		r.await("two renewals of what is left of "+kind, func() bool {
			leases := w.Pool(kind).Leases
			return len(leases) == 0 || leases[0].ExpiresAt.After(ends[kind].Add(8*time.Second))
		})
		if len(w.Pool(kind).Leases) != 1 {
			t.Errorf("%s has lost all leases", kind)
		}
	}
	end()
	touch(t, w.Path("go"))
	const want = `lease lost: "exec-0" (broken: test): the command goes on without it`
	if code := <-r.ended; code != 0 || strings.Count(r.stderr.String(), "lease lost") != 1 || !strings.Contains(r.stderr.String(), want) {
		t.Errorf("exit code %d\n%s", code, &r.stderr)
	}
	w.Await("all to be given back", func() bool { return w.Pool("exec").InUse+w.Pool("keeper").InUse == 0 })
}
