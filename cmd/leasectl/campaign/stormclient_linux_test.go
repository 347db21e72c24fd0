package campaign

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// work runs commands one after the other until ctx ends.
func (s *storm) work(ctx context.Context, n int, random *rand.Rand) {
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("c%d-%d", n, i)
		if random.IntN(8) == 0 {
			s.script(id, random)
		} else {
			s.exec(id, random)
		}
	}
}

// Exit codes of an exec's command.
const (
	stormDone   = 7
	stormNoName = 98 // somebody else holds the lease's name
	stormNoKey  = 99 // somebody else holds its key
	stormKilled = -1
)

// exec runs one exec, in one of many ways.
func (s *storm) exec(id string, random *rand.Rand) {
	key := fmt.Sprint("k", random.IntN(4))
	coalesce := []string{"join", "once", "latest"}[random.IntN(3)]
	noPool := []int{exitExecFailure} // the pool may be missing for a while
	kinds := []struct {
		name   string
		flags  []string
		script string
		codes  []int // allowed beside the command's
	}{
		{"plain", []string{"--type", "install"}, s.holding(random, "-x", "", ""), nil},
		{"reports", []string{"--type", "install"}, s.holding(random, "-x", "", "'"+s.Program+"' report --quiet throttled"), nil},
		{"key", []string{"--type", "deploy", "--key", key}, s.holding(random, "-x", key, ""), nil},
		{coalesce, []string{"--type", "deploy", "--key", key, "--variant", "v", "--coalesce", coalesce}, s.holding(random, "-x", key, ""), []int{exitSuperseded}},
		{"shared", []string{"--type", "shared", "--shared", fmt.Sprint("S", random.IntN(2)), "--max-uses", "5"}, s.holding(random, "-s", "", ""), nil},
		{"units", []string{"--type", "mem", "--count", fmt.Sprint(1 + random.IntN(50))},
			s.holding(random, "-x", "", fmt.Sprintf(`'%s' resize --quiet --handle "$LEASECTL_HANDLE" --count %d >/dev/null 2>&1`, s.Program, 1+random.IntN(60))), noPool},
		{"overcommit", []string{"--type", "mem", "--overcommit", "--items", fmt.Sprint(1 + random.IntN(30))}, s.holding(random, "-x", "", ""), noPool},
		{"once, or not", []string{"--type", "deploy", "--wait-timeout", "0"}, s.holding(random, "-x", "", ""), []int{exitNoLease, exitExecFailure}}, // it asks once, and the answer may be that the store failed
	}
	k := kinds[random.IntN(len(kinds))]
	args := append([]string{"exec", "--owner", id, "--ttl", stormTTL.String(), "--grace-period", "500ms", "--parent-death", "KILL"}, k.flags...)
	code, stderr := s.execute(random, append(args, "--", "sh", "-c", k.script)...)
	s.note(k.name, code)
	if !slices.Contains(append(k.codes, stormDone, stormKilled, exitUnreachable, exitLost), code) {
		s.T.Errorf("%s: %v: exit code %d\n%s", id, k.flags, code, stderr)
	}
}

// holding returns the script of a command that locks its lease's name and its key, which no other
// command may hold. Only the shell has the locks, since processes that it starts may outlive a KILL
// of exec.
func (s *storm) holding(random *rand.Rand, mode, key, more string) string {
	lines := []string{fmt.Sprintf(`exec 8>>'%s'/"$LEASED_RESOURCE"; lockfd 8 %s || exit %d`, s.Path("names"), mode, stormNoName)}
	if key != "" {
		lines = append(lines, fmt.Sprintf(`exec 9>>'%s/%s'; lockfd 9 -x || exit %d`, s.Path("keys"), key, stormNoKey))
	}
	if more != "" {
		lines = append(lines, more+" 8>&- 9>&-")
	}
	return strings.Join(append(lines, fmt.Sprintf("sleep %.3f 8>&- 9>&-", random.Float64()*0.15), fmt.Sprintf("exit %d", stormDone)), "\n")
}

// script acquires a lease as a script does, may renew or reacquire it, and releases it.
func (s *storm) script(id string, random *rand.Rand) {
	run := func(args ...string) (done bool) {
		code, stderr := s.execute(random, append(args, "--handle", s.Path(id))...)
		s.note(args[0], code)
		if !slices.Contains([]int{0, stormKilled, exitUnreachable}, code) && !strings.Contains(stderr, "lease lost") {
			s.T.Errorf("%s: %v: exit code %d\n%s", id, args, code, stderr)
		}
		return code == 0
	}
	take := []string{"--type", "deploy", "--owner", id, "--ttl", stormTTL.String()}
	if !run(append([]string{"acquire"}, take...)...) {
		return
	}
	switch random.IntN(3) {
	case 0:
		run("renew")
	case 1:
		if !run(append([]string{"reacquire"}, take...)...) {
			run("release") // it may hold no lease for a late release
			return
		}
	}
	run([][]string{{"release"}, {"release", "--delay", "300ms", "--detach"}, {"release", "--delay", "300ms"}}[random.IntN(3)]...)
}

// execute runs a command, and kills one of ten.
func (s *storm) execute(random *rand.Rand, args ...string) (code int, stderr string) {
	var out bytes.Buffer
	cmd := s.Command(args...)
	cmd.Stderr, cmd.WaitDelay = &out, time.Second
	if err := cmd.Start(); err != nil {
		s.T.Error(err)
		return stormKilled, ""
	}
	if random.IntN(10) == 0 {
		defer time.AfterFunc(time.Duration(random.IntN(200))*time.Millisecond, func() { cmd.Process.Kill() }).Stop()
	}
	defer time.AfterFunc(tooLong, func() {
		s.T.Errorf("%v does not end", args)
		cmd.Process.Signal(os.Kill)
	}).Stop()
	code = clitest.ExitCode(cmd.Wait())
	return code, out.String()
}

func (s *storm) note(what string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[fmt.Sprintf("%s: %d", what, code)]++
}
