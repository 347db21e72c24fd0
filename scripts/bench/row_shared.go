package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

const (
	sharedAtOnce   = 210
	sharedNames    = 7
	sharedCommands = 5 * 100 * sharedNames // five rounds of each name
	aloneCommands  = 2 * sharedAtOnce      // enough to show that each acquires
	sharedRounds   = 100                   // of the race of one command
)

// measureShared measures how many acquires a shared lease saves its proxy, how many starts of its
// service it saves the machine, and the cost of joining both for a command.
func measureShared(ctx context.Context, w *world) (_ []result, err error) {
	s, err := w.serve(ctx, "--pool", fmt.Sprintf("t=%d", 2*sharedAtOnce))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	cost, err := w.sharedCost(ctx, s.url, 1.0)
	if err != nil {
		return nil, err
	}
	starts := w.fresh("starts")
	service := []string{"--service", "echo >>'" + starts + "'; echo ADDRESS=x; exec sleep 600"}
	serviceCost, err := w.sharedCost(ctx, s.url, 1.05, service...)
	if err != nil {
		return nil, err
	}
	acquires, killed, err := w.sharedAcquires(ctx, s.url, sharedCommands, sharing())
	if err != nil {
		return nil, err
	}
	alone, _, err := w.sharedAcquires(ctx, s.url, aloneCommands, nil)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d at a time over %d names, %d of %d killed", sharedAtOnce, sharedNames, killed, sharedCommands)
	perAcquire := result{
		What: "commands to an acquire, " + what, Unit: number,
		Ours:  measure{Name: "exec --shared --max-uses 100", Value: sharedCommands / acquires, Values: sharedCommands},
		Peers: []measure{{Name: "exec", Value: aloneCommands / alone, Values: aloneCommands}},
	}
	perAcquire.budget("exec", atLeast(90))

	if err := os.Remove(starts); err != nil {
		return nil, err
	}
	if _, _, err := w.sharedAcquires(ctx, s.url, sharedCommands, sharing(service...)); err != nil {
		return nil, err
	}
	if err := w.sharedEnd(ctx); err != nil {
		return nil, err
	}
	started, err := os.ReadFile(starts)
	if err != nil {
		return nil, err
	}
	perStart := result{
		What: "commands to a start of their service, " + what, Unit: number, Limit: atLeast(90),
		Ours: measure{Name: "exec --shared --max-uses 100 --service", Value: float64(sharedCommands) / float64(len(started)), Values: sharedCommands},
	}
	return []result{cost, serviceCost, perAcquire, perStart}, nil
}

// sharing returns the flags of the command with a number: it shares the lease of a name, which is used
// up after 100 uses.
func sharing(more ...string) func(i int) []string {
	return func(i int) []string {
		return append([]string{"--shared", fmt.Sprintf("name-%d", i%sharedNames), "--max-uses", "100"}, more...)
	}
}

// sharedEnd returns when no shared lease is left: those whose users were killed, too.
func (w *world) sharedEnd(ctx context.Context) error {
	return await(ctx, startTime, func() (bool, error) {
		left, err := filepath.Glob(filepath.Join(w.dir, "state/shared/*"))
		return len(left) == 0, err
	})
}

// sharedCost compares a command that joins, with further flags, with a command that has a lease of its
// own.
func (w *world) sharedCost(ctx context.Context, proxy string, bound float64, flags ...string) (_ result, err error) {
	exec1 := []string{w.leasectl, "--quiet", "exec", "--proxy", proxy, "--type", "t"}
	shared := append(append(exec1[:len(exec1):len(exec1)], "--shared", "X"), flags...)
	up := w.fresh("up")
	first := exec.CommandContext(ctx, shared[0], append(shared[1:len(shared):len(shared)], "--", "sh", "-c", "touch "+up+"; sleep 600")...)
	first.Env = w.environment()
	if err := first.Start(); err != nil {
		return result{}, err
	}
	defer func() {
		first.Process.Signal(syscall.SIGTERM) // who ignores INT, as in the background of a shell, lets its children ignore it
		first.Wait()
	}()
	err = await(ctx, startTime, func() (bool, error) {
		_, err := os.Stat(up)
		return err == nil, nil
	})
	if err != nil {
		return result{}, err
	}
	all := []*contender{
		{name: "a use that joins", args: append(shared, "--", "true")},
		{name: "exec", args: append(exec1[:len(exec1):len(exec1)], "--", "true")},
	}
	if err := w.race(ctx, sharedRounds, all); err != nil {
		return result{}, err
	}
	what := "exec --shared -- true"
	if len(flags) > 0 {
		what = "exec --shared --service … -- true"
	}
	r := compare(what+", wall time of a use that joins", inSeconds, wallTime, all)
	r.budget("exec", atMost(bound))
	return r, nil
}

// sharedAcquires runs commands with the flags of each, none if flags is nil, kills a tenth of them, and
// returns how many acquires the proxy saw.
func (w *world) sharedAcquires(ctx context.Context, proxy string, commands int, flags func(i int) []string) (acquires float64, killed int, err error) {
	front, err := count(proxy)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, front.close()) }()
	random := rand.New(rand.NewPCG(1, 2))
	var group sync.WaitGroup
	defer group.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end() // kills what still runs after a failure
	var failed atomic.Pointer[error]
	free := make(chan struct{}, sharedAtOnce)
	for i := range commands {
		free <- struct{}{}
		args := []string{"--quiet", "exec", "--proxy", front.url, "--type", "t", "--parent-death", "KILL"}
		if flags != nil {
			args = append(args, flags(i)...)
		}
		cmd := exec.CommandContext(ctx, w.leasectl, append(args, "--", "sleep", "0.2")...)
		cmd.Env = w.environment()
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			return 0, 0, err
		}
		dies := random.IntN(10) == 0
		if dies {
			killed++
			time.AfterFunc(time.Duration(random.Int64N(int64(400*time.Millisecond))), func() { cmd.Process.Kill() })
		}
		group.Go(func() {
			if err := cmd.Wait(); err != nil && !dies {
				err = fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
				failed.Store(&err)
			}
			<-free
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return 0, 0, *err
	}
	return float64(front.acquires.Load()), killed, nil
}

// counter passes requests on to a proxy and counts the acquires among them.
type counter struct {
	url      string
	server   *http.Server
	acquires atomic.Int64
}

func count(proxy string) (*counter, error) {
	target, err := url.Parse(proxy)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &counter{url: "http://" + listener.Addr().String()}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.ErrorLog = log.New(io.Discard, "", 0) // clients that are killed in the middle of a request
	c.server = &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == leaseapi.PathAcquire {
			c.acquires.Add(1)
		}
		req.Host = target.Host // the proxy answers to its own name only
		forward.ServeHTTP(rw, req)
	})}
	go c.server.Serve(listener)
	return c, nil
}

func (c *counter) close() error { return c.server.Close() }
