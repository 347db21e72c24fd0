package campaign

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// failpoints returns the names of all failpoints in the source.
func failpoints(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, dir := range []string{"internal/holder", "internal/holder/keeper", "internal/holder/shared", "internal/holder/v1"} {
		more, err := filepath.Glob("../../../" + dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	var names []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			here, isName := call.Fun.(*ast.SelectorExpr)
			text, isText := call.Args[0].(*ast.BasicLit)
			if isName && isText && here.Sel.Name == "Here" {
				point, err := strconv.Unquote(text.Value)
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, point)
			}
			return true
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// An operation is a leasectl command to kill, with the commands that run before it.
type operation struct {
	name   string
	before [][]string
	crash  []string // a leasectl that is killed with its names in the handle
	args   []string
	owned  bool // it has an owner process, which dies afterwards
	points []string
}

// HANDLE and OWNER in arguments stand for the handle and the owner process of each run.
var operations = []operation{
	{name: "acquire", points: handedOver, args: []string{"acquire", "--type", "install", "--handle", "HANDLE"}},
	{name: "acquire two", points: handedOver, args: []string{"acquire", "--type", "install", "--count", "2", "--handle", "HANDLE"}},
	{name: "acquire in vain", points: askPoints, args: []string{"acquire", "--type", "full", "--wait-timeout", "0", "--handle", "HANDLE"}},
	{name: "acquire, default handle", points: handedOver, args: []string{"acquire", "--type", "install"}},
	{name: "acquire, release after", points: slices.Concat(handedOver, delayPoints),
		args: []string{"acquire", "--type", "install", "--handle", "HANDLE", "--release-after", "10m"}},
	{name: "acquire, owner", owned: true, points: slices.Concat(handedOver, keeperPoints, releasePoints),
		args: []string{"acquire", "--type", "install", "--handle", "HANDLE", "--owner-pid", "OWNER"}},
	{name: "release", points: releasePoints, before: [][]string{acquireFirst}, args: []string{"release", "--handle", "HANDLE"}},
	{name: "release late", points: delayPoints, before: [][]string{acquireFirst}, args: []string{"release", "--handle", "HANDLE", "--delay", "10m", "--detach"}},
	{name: "reacquire", points: handedOver, before: [][]string{acquireFirst}, args: []string{"reacquire", "--handle", "HANDLE"}},
	{name: "reacquire for another owner", points: slices.Concat(replacePoints, handedOver),
		before: [][]string{acquireFirst}, args: []string{"reacquire", "--handle", "HANDLE", "--owner", "another"}},
	{name: "reacquire in vain", points: askPoints,
		before: [][]string{acquireFirst}, args: []string{"reacquire", "--type", "full", "--wait-timeout", "0", "--handle", "HANDLE"}},
	{name: "reacquire, owner", owned: true, points: slices.Concat(handedOver, keeperPoints, releasePoints),
		before: [][]string{slices.Concat(acquireFirst, []string{"--owner-pid", "OWNER"})},
		args:   []string{"reacquire", "--handle", "HANDLE", "--owner-pid", "OWNER"}},
	{name: "exec", points: slices.Concat(acquirePoints, releasePoints), args: execFirst},
	{name: "exec, default handle, attempts", points: slices.Concat(acquirePoints, releasePoints),
		args: []string{"exec", "--type", "install", "--attempts", "2", "--retry-on", "4", "--", "sh", "-c", "exit 4"}},
	{name: "exec, attempts", points: slices.Concat(acquirePoints, releasePoints),
		args: []string{"exec", "--type", "install", "--handle", "HANDLE", "--attempts", "2", "--retry-on", "4", "--", "sh", "-c", "exit 4"}},
	{name: "exec, attempts that report", points: slices.Concat(acquirePoints, replacePoints, releasePoints),
		args: []string{"exec", "--type", "install", "--handle", "HANDLE", "--attempts", "2", "--retry-on", "4", "--throttled-on", "4", "--", "sh", "-c", "exit 4"}},
	{name: "exec, optional in vain", points: askPoints, args: []string{"exec", "--type", "full", "--wait-timeout", "0", "--optional", "--handle", "HANDLE", "--", "true"}},
	{name: "recover", points: settlePoints, crash: execFirst, args: []string{"recover"}},
	{name: "acquire after a crash", points: slices.Concat(settlePoints, handedOver), crash: execFirst, args: acquireFirst},
}

var execFirst = []string{"exec", "--type", "install", "--handle", "HANDLE", "--", "true"}
var acquireFirst = []string{"acquire", "--type", "install", "--handle", "HANDLE"}

// Failpoints that operations reach.
var (
	askPoints     = []string{"intent-written", "request-in-handle", "acquire-unsent", "acquire-answered"}
	acquirePoints = slices.Concat(askPoints, []string{"names-in-handle"})
	handedOver    = slices.Concat(acquirePoints, []string{"handle-printed", "lease-firm"})
	releasePoints = []string{"release-in-journal", "release-unsent", "release-answered", "handle-removed"}
	settlePoints  = []string{"release-unsent", "release-answered"} // for the leases in the journal
	replacePoints = []string{"release-in-journal", "release-unsent", "release-answered", "replaced-released"}
	delayPoints   = []string{"delay-answered"}
	keeperPoints  = []string{"keeper-unstarted", "keeper-started", "keeper-ready", keeperRenewed, "keeper-due", "keeper-in-journal"}
)

// TestFailpoints kills every operation once at each failpoint that it reaches. After recover, each
// granted lease has ended once, or stands in a handle that its user can release. No request,
// journal entry or keeper is left.
func TestFailpoints(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("hundreds of processes")
	}
	w := newWorld(t, clitest.Build(t, "failpoint"), "install=4", "full=1")
	w.Run(0, "acquire", "--type", "full", "--handle", w.Path("blocker"))
	reached := make(map[string]bool)
	killed := 0
	for i, op := range operations {
		for j, point := range op.points {
			r := &killedRun{world: w, op: op, point: point, handle: w.Path(fmt.Sprintf("h%d-%d", i, j))}
			r.do()
			if t.Failed() {
				t.Fatalf("%s, to be killed at %s\n%s", op.name, point, w.Log)
			}
			reached[point] = true
			killed++
		}
	}
	for _, point := range failpoints(t) {
		elsewhere := func(prefix string) bool { return strings.HasPrefix(point, prefix) }
		if !reached[point] && point != requestAnew && !slices.ContainsFunc([]string{sharedPoint, keptPoint, servicePoint}, elsewhere) {
			t.Errorf("failpoint %s: no operation reaches it", point)
		}
	}
	w.Run(0, "release", "--handle", w.Path("blocker"))
	w.WantHeld()
	if l := w.Ledger(); len(l.Granted) < killed/2 {
		t.Errorf("%d grants only: the log was not understood", len(l.Granted))
	}
}

// sharedPoint is the prefix of failpoints that only shared leases reach: see TestSharedFailpoints.
const sharedPoint = "round-"

// keptPoint is the prefix of failpoints of the adapter for version 1: see TestVersionOneKilled.
const keptPoint = "kept-"

// keeperRenewed is a failpoint that a keeper reaches while its owner lives.
const keeperRenewed = "keeper-renewed"

// requestAnew is the failpoint between a request id that ended unseen and the next id. It is
// reached only if the proxy says that the id has ended: see TestKilledBeforeTheNextID.
const requestAnew = "request-anew"

// A process that is killed when it has given its request another id leaves a journal entry for the
// new id only, and recover withdraws that id.
func TestKilledBeforeTheNextID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, "failpoint"), "install=1")
	var asked, withdrawn []string
	var mu sync.Mutex
	address, _ := w.Listen(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch req.URL.Path {
		case leaseapi.PathAcquire:
			asked = append(asked, wiretest.Asked(req).RequestID)
			out.Header().Set("Content-Type", leaseapi.ContentTypeProblem)
			out.WriteHeader(http.StatusGone)
			json.NewEncoder(out).Encode(leaseapi.Problem{Type: leaseapi.ProblemEnded, Status: http.StatusGone, Reason: leaseapi.ReasonUnconfirmed})
		case leaseapi.PathRelease:
			var body leaseapi.ReleaseRequest
			json.NewDecoder(req.Body).Decode(&body)
			withdrawn = append(withdrawn, body.RequestIDs...)
			json.NewEncoder(out).Encode(leaseapi.ReleaseReply{Released: []string{}})
		default:
			http.NotFound(out, req)
		}
	}))
	for _, args := range [][]string{{"--handle", w.Path("h")}, nil} {
		mu.Lock()
		asked, withdrawn = nil, nil
		mu.Unlock()
		cmd := w.Command(append([]string{"acquire", "--proxy", address, "--type", "install"}, args...)...)
		cmd.Env = append(cmd.Env, "LEASECTL_FAILPOINT="+requestAnew)
		if code := clitest.ExitCode(cmd.Run()); code != -1 {
			t.Fatalf("%v: exit code %d, want to be killed", args, code)
		}
		w.Run(0, "recover", "--proxy", address)
		mu.Lock()
		if withdrawn = slices.Compact(withdrawn); len(asked) != 1 || len(withdrawn) != 1 || asked[0] == withdrawn[0] {
			t.Errorf("%v: asked under %v, withdrawn %v: want the next id, alone", args, asked, withdrawn)
		}
		mu.Unlock()
		for _, path := range []string{w.Path("h"), w.Path("h.json"), w.Path("h.lock")} {
			if clitest.Exists(path) {
				t.Errorf("%v: %s is left", args, path)
			}
		}
	}
}

// killedRun is one operation with one failpoint.
type killedRun struct {
	*world
	op     operation
	point  string
	handle string
}

// do runs the operation, in which a process must be killed, then recovers and checks.
func (r *killedRun) do() {
	t := r.T
	t.Helper()
	owner, endOwner := 0, func() {}
	if r.op.owned {
		owner, endOwner = r.Owner()
	}
	fill := strings.NewReplacer("HANDLE", r.handle, "OWNER", strconv.Itoa(owner))
	arguments := func(args []string) []string {
		args = slices.Clone(args)
		for i := range args {
			args[i] = fill.Replace(args[i])
		}
		return args
	}
	for _, args := range r.op.before {
		r.Run(0, arguments(args)...)
	}
	if r.op.crash != nil {
		r.killAt("names-in-handle", arguments(r.op.crash))
	}
	cmd := r.Command(arguments(r.op.args)...)
	cmd.Env = append(cmd.Env, "LEASECTL_FAILPOINT="+r.point)
	killed := clitest.ExitCode(cmd.Run()) == -1
	if r.op.owned && r.point == keeperRenewed {
		// The keeper renews soon, unless its owner ends before.
		r.Await("the keeper to be killed at its first renewal", func() bool {
			alive, _ := r.keepers()
			return alive == 0
		})
	}
	endOwner()
	if r.op.owned {
		// The keeper gives the lease back, or is killed meanwhile.
		r.Await("the keepers to end", func() bool {
			alive, dead := r.keepers()
			killed = killed || dead > 0
			return alive == 0 && !r.journalInUse()
		})
	}
	if !killed {
		t.Error("nobody came by that place")
	}
	r.Run(0, "recover")
	r.balanced()
}

// journalInUse reports whether a process has a journal entry locked. A killed process loses its
// locks and its sockets one after the other, so dead sockets alone do not show that it has ended.
func (w *world) journalInUse() bool {
	entries, _ := filepath.Glob(w.Path("state/intents/*.json"))
	return slices.ContainsFunc(entries, func(entry string) bool {
		return errors.Is(lockfile.TryLock(entry, func() error { return nil }), lockfile.ErrLocked)
	})
}

// keepers counts the sockets of living and of killed keepers.
func (w *world) keepers() (alive, dead int) {
	sockets, _ := filepath.Glob(w.Path("state/keepers/*"))
	for _, s := range sockets {
		switch {
		case listens(s):
			alive++
		case clitest.Exists(s):
			dead++
		}
	}
	return alive, dead
}

// listens tells whether somebody accepts connections on a Unix socket.
func listens(socket string) bool {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// balanced checks that every held lease stands in a handle, and that nothing else is left. Then it
// releases the handles.
func (r *killedRun) balanced() {
	t := r.T
	t.Helper()
	if left, _ := filepath.Glob(r.Path("state/intents/*")); len(left) > 0 {
		t.Errorf("journal entries are left: %v", left)
	}
	handles := []string{r.handle}
	own, err := lockfile.Handles(r.Path("state"))
	if err != nil {
		t.Error(err)
	}
	for _, h := range own {
		handles = append(handles, h.Path())
	}
	want := []string{"full-0"}
	for _, path := range handles {
		h, err := lockfile.OpenHandle(path)
		if err != nil {
			t.Error(err)
			continue
		}
		record, err := h.Read()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || record.State != lockfile.HandleHeld {
			t.Errorf("handle %s after recover: %+v, %v", path, record, err)
		}
		want = append(want, record.Names()...)
	}
	r.WantHeld(want...)
	for _, path := range handles {
		r.Run(0, "release", "--handle", path)
	}
	if pool := r.Pool("install"); pool.InUse != 0 || pool.Waiting != 0 {
		t.Errorf("after all handles are released, %d are held, %d wait", pool.InUse, pool.Waiting)
	}
	r.WantHeld("full-0")
	if alive, dead := r.keepers(); alive+dead > 0 {
		t.Errorf("%d keepers live, %d left a socket", alive, dead)
	}
	for _, suffix := range []string{"", ".json", ".lock", ".lock.json"} {
		if clitest.Exists(r.handle + suffix) {
			t.Errorf("%s is left", r.handle+suffix)
		}
	}
}
