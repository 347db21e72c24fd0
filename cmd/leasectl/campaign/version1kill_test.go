package campaign

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/lockfile"
)

// TestVersionOneKilled kills operations at a version-1 proxy once at each failpoint that they reach.
// After that each lease that the proxy still has stands in a handle, or recover lists it, and no
// name was released that nobody held.
func TestVersionOneKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many processes")
	}
	asks := []string{"intent-written", "request-in-handle", "acquire-unsent"}
	granted := []string{"kept-unwritten", "kept-held", "acquire-answered", "names-in-handle"}
	released := []string{"release-in-journal", "release-unsent", "kept-releasing", "kept-answered", "release-answered", "handle-removed"}
	first := []string{"acquire", "--type", "install", "--handle", "HANDLE"}
	w := newWorld(t, clitest.Build(t, "failpoint"), "install=1")
	for i, op := range []operation{
		{name: "acquire", points: slices.Concat(asks, granted, []string{"handle-printed", "lease-firm"}), args: first},
		{name: "acquire two", points: slices.Concat(asks, granted), args: append([]string{"--count", "2"}, first[1:]...)},
		{name: "exec", points: slices.Concat(asks, granted, released), args: []string{"exec", "--type", "install", "--handle", "HANDLE", "--", "true"}},
		{name: "release", points: released, before: [][]string{first}, args: []string{"release", "--handle", "HANDLE"}},
		{name: "release by name", points: []string{"kept-releasing", "kept-answered"}, before: [][]string{first}, args: []string{"release", "--names", "install-0"}},
		{name: "reacquire", points: slices.Concat(released[:5], []string{"replaced-released"}, granted), before: [][]string{first}, args: []string{"reacquire", "--handle", "HANDLE"}},
	} {
		if op.args[0] == "--count" {
			op.args = append([]string{"acquire"}, op.args...)
		}
		for j, point := range op.points {
			for _, next := range []string{"recover", "release"} {
				r := &versionOneRun{world: w, versionOne: new(versionOne), op: op, point: point, next: next, handle: w.Path(fmt.Sprintf("v%d-%d-%s", i, j, next))}
				r.do()
				if t.Failed() {
					t.Fatalf("%s, killed at %s, then %s", op.name, point, next)
				}
			}
		}
	}
}

// versionOneRun is one operation with one failpoint, at a proxy of its own.
type versionOneRun struct {
	*world
	*versionOne
	op     operation
	point  string
	next   string // command after the kill
	handle string
}

func (r *versionOneRun) do() {
	t := r.T
	t.Helper()
	address, end := r.Listen(r.versionOne)
	defer end()
	arguments := func(args []string) []string {
		args = append(slices.Clone(args), "--proxy", address)
		if at := slices.Index(args, "--"); at >= 0 { // flags come before the command
			args = slices.Concat(args[:at], args[len(args)-2:], args[at:len(args)-2])
		}
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "HANDLE", r.handle)
		}
		return args
	}
	for _, args := range r.op.before {
		r.Run(0, arguments(args)...)
	}
	cmd := r.Command(arguments(r.op.args)...)
	cmd.Env = append(cmd.Env, "LEASECTL_FAILPOINT="+r.point)
	if code := clitest.ExitCode(cmd.Run()); code != -1 {
		t.Fatalf("exit code %d: nobody came by %s", code, r.point)
	}
	if r.next == "release" {
		r.Command("release", "--handle", r.handle, "--proxy", address).Run() // exits with 1 if something is unconfirmed
	}
	listed, unnamed := r.recovered()
	if unnamed > 0 && slices.Contains([]string{"kept-held", "acquire-answered"}, r.point) {
		t.Error("recover does not say which names the request got, although they stand in files")
	}
	inHandle := r.inHandle()
	for _, name := range r.heldNow() {
		if !slices.Contains(listed, name) && !slices.Contains(inHandle, name) && unnamed == 0 {
			t.Errorf("%s is held, and nothing says so: handle %v, listed %v", name, inHandle, listed)
		}
	}
	// What is known to be held is released once, and what is not is never sent.
	command := r.Command("release", "--handle", r.handle, "--proxy", address)
	if code := clitest.ExitCode(command.Run()); code != 0 && len(listed) == 0 {
		t.Errorf("the release afterwards ends with %d", code)
	}
	held := r.heldNow()
	if wrong := r.wrongNow(); len(wrong) > 0 {
		t.Errorf("released although nobody held it: %v", wrong)
	}
	for _, name := range inHandle {
		if slices.Contains(held, name) && !slices.Contains(listed, name) {
			t.Errorf("%s is held after all was released", name)
		}
	}
	r.forget()
	if listed, unnamed := r.recovered(); len(listed)+unnamed > 0 {
		t.Errorf("forgotten, and listed again: %v", listed)
	}
	command = r.Command("release", "--handle", r.handle, "--proxy", address)
	if code := clitest.ExitCode(command.Run()); code != 0 {
		t.Errorf("after all was forgotten, a release ends with %d", code)
	}
	if left, _ := filepath.Glob(r.Path("state/version1/*")); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func (r *versionOneRun) inHandle() []string {
	h, err := lockfile.OpenHandle(r.handle)
	if err != nil {
		r.T.Fatal(err)
	}
	record, _ := h.Read()
	return record.NamesInFile()
}
