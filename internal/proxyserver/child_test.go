package proxyserver

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store/bolt"
	"github.com/leasectl/leasectl/internal/wiretest"
)

// Environment of a child process that serves for the campaign.
const (
	childSocket = "PROXYSERVER_TEST_SOCKET"
	childStore  = "PROXYSERVER_TEST_STORE" // data directory; empty: in memory
	childFsize  = "PROXYSERVER_TEST_FSIZE" // most bytes of any file, as if the disk were full beyond
	childSync   = "PROXYSERVER_TEST_SYNC"  // syncs fail after a signal
	childWall   = "PROXYSERVER_TEST_WALL"  // the wall clock jumps all the time
)

// breakSyncOnSignal is nil where the system cannot do it.
var breakSyncOnSignal func()

func campaignPools() []pool.Config {
	return []pool.Config{
		{Type: "q", Names: []string{"a", "b", "c", "d", "e"}}, // clients queue for it
		{Type: "clock", Names: []string{"clock"}},
		{Type: "wide", Names: pool.Numbered("n", 64)}, // nobody has to wait for it
	}
}

// serveCampaign is the child: it serves until it is killed.
func serveCampaign() {
	err := func() error {
		if limit, err := strconv.ParseUint(os.Getenv(childFsize), 10, 64); err == nil {
			signal.Ignore(syscall.SIGXFSZ) // then a write fails with EFBIG
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
				return err
			}
		}
		if os.Getenv(childSync) != "" {
			breakSyncOnSignal()
		}
		opts := Options{Pools: campaignPools()}
		if dir := os.Getenv(childStore); dir != "" {
			var err error
			if opts.Store, err = bolt.Open(dir); err != nil {
				return err
			}
		}
		if os.Getenv(childWall) != "" {
			opts.now = jumpingClock(time.Now())
		}
		s, err := New(opts)
		if err != nil {
			return err
		}
		socket := os.Getenv(childSocket)
		os.Remove(socket)
		l, err := net.Listen("unix", socket)
		if err != nil {
			return err
		}
		return s.Serve(context.Background(), l)
	}()
	fmt.Fprintln(os.Stderr, "server:", err)
	os.Exit(1)
}

// jumpingClock returns a clock whose wall part is wrong by up to twelve hours either way,
// differently at each reading.
func jumpingClock(begun time.Time) func() time.Time {
	return func() time.Time {
		now := time.Now()
		off := time.Duration(rand.Int64N(int64(24*time.Hour))) - 12*time.Hour
		return reading(now.Add(off), now.Sub(begun)+1)
	}
}

// child is a server in a process of its own, which can be killed.
type child struct {
	cmd   *exec.Cmd
	begun time.Time
}

func startChild(t *testing.T, socket, data string, env ...string) *child {
	t.Helper()
	return startChildWith(t, socket, data, nil, env...)
}

func startChildWith(t *testing.T, socket, data string, stdout *os.File, env ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(exe), begun: time.Now()}
	c.cmd.Env = append(os.Environ(), childSocket+"="+socket, childStore+"="+data)
	c.cmd.Env = append(c.cmd.Env, env...)
	if stdout != nil {
		c.cmd.Stdout = stdout
	}
	c.cmd.Stderr = os.Stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// kill returns how long the process lived at most.
func (c *child) kill() time.Duration {
	c.cmd.Process.Kill()
	c.cmd.Wait() // its error says that it was killed
	return time.Since(c.begun)
}

// overSocket returns a client of the server that listens on socket at the time.
func overSocket(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
}

// insist sends a request until the answer is not a 5xx, as clients that lost their server
// do.
func insist(ctx context.Context, c *http.Client, method, target, body string) (reply, error) {
	for {
		r, err := once(ctx, c, method, target, body)
		if err == nil && r.status < 500 || ctx.Err() != nil {
			return r, err
		}
		time.Sleep(time.Millisecond) // nothing says when the server is back
	}
}

func once(ctx context.Context, c *http.Client, method, target, body string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://server"+wiretest.Target(target), strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(text)}, err
}
