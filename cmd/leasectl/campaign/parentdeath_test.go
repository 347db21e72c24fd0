package campaign

import (
	"bufio"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

var killRounds = flag.Int("kill-rounds", 10, "rounds of TestParentDeath, for each signal and kind of moment")

// If exec itself is KILLed, at whatever moment, its command gets the signal of --parent-death and
// ends, so the files that it had open are closed. The next round's exec gives the killed exec's
// lease back. Early KILLs come before some commands run, and after others.
//
//	go test -run TestParentDeath -kill-rounds 100 ./cmd/leasectl/campaign
func TestParentDeath(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the parent-death signal is Linux")
	}
	program := clitest.Build(t, "")
	for _, tt := range []struct {
		name  string
		flags []string
		want  string
		early bool // kill at a moment counted from the start of exec, not of the command
	}{
		{name: "TERM by default", want: "TERM"},
		{name: "USR1", flags: []string{"--parent-death", "USR1"}, want: "USR1"},
		{name: "TERM, before or after the command starts", want: "TERM", early: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, program, "install=1")
			begun, up, told := time.Now(), 0, 0
			after := 20 * time.Millisecond // the KILL comes at about this time
			for range *killRounds {
				said := w.killedExec(tt.early, after, tt.flags...)
				ran := strings.HasPrefix(said, "up\n")
				switch {
				case !tt.early:
				case ran: // kill earlier next time, to come close to the start of the command
					after /= 2
				default:
					after *= 2
				}
				if ran {
					up++
					// The kernel sends the signal again for each thread of exec that
					// inherits the command and dies, too.
					if rest := strings.ReplaceAll(said, tt.want+"\n", ""); rest == "up\n" && said != rest {
						told++
					} else {
						t.Errorf("the command said %q, want up and then %s", said, tt.want)
					}
				} else if said != "" || !tt.early {
					t.Errorf("the command said %q", said)
				}
			}
			if tt.early && (up == 0 || up == *killRounds) {
				t.Errorf("%d commands ran in %d rounds: no KILL came about their start", up, *killRounds)
			}
			t.Logf("%d of %d commands that ran got %s, in %d rounds and %v", told, up, tt.want, *killRounds, time.Since(begun).Round(time.Millisecond))
			w.Run(0, "recover")
			w.WantHeld()
		})
	}
}

// parentDeathCommand prints each signal that it gets. Without a signal it would go on for a minute,
// and the test would fail.
const parentDeathCommand = `
trap 'echo TERM; exit 0' TERM
trap 'echo USR1; exit 0' USR1
echo up
i=0
while [ $((i += 1)) -lt 6000 ]; do sleep 0.01; done`

// killedExec KILLs an exec at about the time after: from when its command runs, or from exec's own
// start if early. It returns the output of the command, up to the end of the command.
func (w *world) killedExec(early bool, after time.Duration, flags ...string) (said string) {
	w.T.Helper()
	r, stdout := clitest.NewPipe(w.T)
	args := append([]string{"exec", "--quiet", "--type", "install"}, flags...)
	cmd := w.Command(append(args, "--", "sh", "-c", parentDeathCommand)...)
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		w.T.Fatal(err)
	}
	stdout.Close() // now only the command has it open
	r.SetReadDeadline(time.Now().Add(clitest.Patience / 2))
	lines, first := bufio.NewReader(r), ""
	var err error
	if !early {
		if first, err = lines.ReadString('\n'); err != nil {
			w.T.Errorf("the command did not start: %v", err)
		}
	}
	time.Sleep(rand.N(2 * after)) // a random moment, not a wait for something
	cmd.Process.Kill()
	if _, err := cmd.Process.Wait(); err != nil {
		w.T.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil {
		w.T.Errorf("after %q: %v: the command lives on", first+string(rest), err)
	}
	return first + string(rest)
}
