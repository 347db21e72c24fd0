package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// standIn plays an account for the jobs that are connected to it. It throttles a new job if more
// jobs are connected than it bears.
type standIn struct {
	bears int

	mu        sync.Mutex
	jobs      int // connected now
	all       int // that ever connected
	throttled int
	end       chan struct{} // closed to end the connected jobs
}

// serve serves the account on a port until the test ends.
func (a *standIn) serve(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { a.bear(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	return l.Addr().(*net.TCPAddr).Port
}

func (a *standIn) bear(conn net.Conn) {
	defer conn.Close()
	a.mu.Lock()
	a.jobs, a.all = a.jobs+1, a.all+1
	end, throttles := a.end, a.jobs > a.bears
	if throttles {
		a.throttled++
	}
	a.mu.Unlock()
	if throttles {
		fmt.Fprintln(conn, "level=error msg=\"Throttling: Rate exceeded\"")
	}
	<-end
}

// endAll ends the connected jobs if they are at least atOnce, or if ever jobs have connected in
// all. It returns whether ever jobs have connected.
func (a *standIn) endAll(atOnce, ever int) (last bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.jobs >= atOnce || a.all == ever {
		close(a.end)
		a.jobs, a.end = 0, make(chan struct{})
	}
	return a.all == ever
}

// TestLimitFindsItself lets real processes run against an account that bears four. The limit comes
// down from six, since exec finds the throttling in the logs of the jobs. Jobs that are granted a
// lease after that are not throttled.
func TestLimitFindsItself(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	pools := filepath.Join(t.TempDir(), "pools.yaml")
	const config = "resources:\n- {type: install, max-count: 8, adapt: {floor: 2, start: 6}}\n"
	if err := os.WriteFile(pools, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorldOf(t, program, "--config", pools)
	a := &standIn{bears: 4, end: make(chan struct{})}
	job := fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d && while read -r line <&3; do echo "$line" >>"$0"; done`, a.serve(t))

	const jobs = 19 // six, five and four at once, and more
	var running sync.WaitGroup
	defer running.Wait()
	for i := range jobs {
		log := w.Path(fmt.Sprint("log-", i))
		cmd := w.Command("exec", "--type", "install", "--in-log", log, "--throttled-match", "Throttling|RequestLimitExceeded",
			"--", "bash", "-c", job, log)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if code := clitest.ExitCode(cmd.Wait()); code != 0 {
				t.Errorf("a job ended with exit code %d", code)
			}
		})
	}
	w.Await("all jobs to have come", func() bool { return a.endAll(w.Pool("install").Limit, jobs) })
	running.Wait()
	p, throttled := w.Pool("install"), a.throttled
	if p.Limit != 4 || p.Wall != 5 || p.Moved == nil || p.Moved.From != 5 || p.Moved.Detail != `level=error msg="Throttling: Rate exceeded"` {
		t.Errorf("the limit is %+v, moved %+v", p, p.Moved)
	}
	// One or two of the first six, one of the next five, and jobs that began before a report of
	// these had arrived.
	if throttled < 2 || throttled > 8 {
		t.Errorf("of %d jobs %d were throttled", jobs, throttled)
	}
	ok, said := 0, 0
	for _, limit := range p.Tally {
		ok, said = ok+limit.OK, said+limit.Throttled
	}
	if said != throttled || ok+said != jobs {
		t.Errorf("reported are %d ok and %d throttled, of %d and %d", ok, said, jobs-throttled, throttled)
	}
}
