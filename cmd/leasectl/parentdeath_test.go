package main

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
)

var killRounds = flag.Int("kill-rounds", 10, "rounds of TestParentDeath, for each signal and kind of moment")

// When exec itself is KILLed, at whatever moment, its command gets the signal of
// --parent-death in every round, and does not live on: what it has open is
// closed. The next round's exec gives back what the killed one held. Early KILLs hit
// some commands before they run, and some after.
//
//	go test -run TestParentDeath -kill-rounds 100 ./cmd/leasectl
func TestParentDeath(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the parent-death signal is Linux")
	}
	program := build(t, "")
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
			after := 20 * time.Millisecond // about which the KILL comes
			for range *killRounds {
				said := w.killedExec(tt.early, after, tt.flags...)
				ran := strings.HasPrefix(said, "up\n")
				switch {
				case !tt.early:
				case ran: // next time earlier: so it comes about the start of the command
					after /= 2
				default:
					after *= 2
				}
				if ran {
					up++
					// The kernel tells it again for each thread of exec that
					// inherits it and dies too.
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
			w.run(0, "recover")
			w.wantHeld()
		})
	}
}

// parentDeathCommand says which signal it gets. It would go on for a minute
// without, and the test be too late.
const parentDeathCommand = `
trap 'echo TERM; exit 0' TERM
trap 'echo USR1; exit 0' USR1
echo up
i=0
while [ $((i += 1)) -lt 6000 ]; do sleep 0.01; done`

// killedExec KILLs an exec about that long after its command runs, or if it is early
// after its own start. It returns what the command said until it had ended.
func (w *world) killedExec(early bool, after time.Duration, flags ...string) (said string) {
	w.t.Helper()
	r, stdout := newPipe(w.t)
	args := append([]string{"exec", "--quiet", "--type", "install"}, flags...)
	cmd := w.command(append(args, "--", "sh", "-c", parentDeathCommand)...)
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	stdout.Close() // the command alone has it now
	r.SetReadDeadline(time.Now().Add(patience / 2))
	lines, first := bufio.NewReader(r), ""
	var err error
	if !early {
		if first, err = lines.ReadString('\n'); err != nil {
			w.t.Errorf("the command did not start: %v", err)
		}
	}
	time.Sleep(rand.N(2 * after)) // a random moment, not a wait for something
	cmd.Process.Kill()
	if _, err := cmd.Process.Wait(); err != nil {
		w.t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil {
		w.t.Errorf("after %q: %v: the command lives on", first+string(rest), err)
	}
	return first + string(rest)
}
