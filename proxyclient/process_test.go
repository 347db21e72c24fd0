package proxyclient

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

func TestMain(m *testing.M) {
	if child := children[os.Getenv("PROXYCLIENT_TEST_CHILD")]; child != nil {
		child()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// children are functions that tests run in a process of their own. They print the result.
var children = map[string]func(){
	"heartbeat": heartbeatChild,
	"acquire":   acquireChild,
}

func child(t *testing.T, name string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), append(env, "PROXYCLIENT_TEST_CHILD="+name)...)
	cmd.Stderr = os.Stderr
	return cmd
}

func heartbeatChild() {
	c, err := New(Options{URL: os.Getenv("TEST_URL")})
	if err == nil {
		err = (&Heartbeat{Client: c, Leases: leases}).Run(noDeadline)
	}
	lost, _ := errors.AsType[*LostError](err)
	if lost == nil {
		fmt.Println("not lost:", err)
		return
	}
	fmt.Println("lost, late:", Until(lost.Deadline) < 0, "said so:", len(lost.Lost) > 0)
}

// A process that was stopped until its lease ended detects that by itself, and does not
// renew the lease first.
func TestHeartbeatStopped(t *testing.T) {
	const ttl = 500 * time.Millisecond
	renewals := make(chan struct{}, 1000)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answerJSON(w, http.StatusOK, leaseapi.RenewReply{TTL: leaseapi.Duration(ttl), RenewEvery: leaseapi.Duration(ttl / 5)})
		renewals <- struct{}{}
	}))
	defer srv.Close()
	cmd := child(t, "heartbeat", "TEST_URL="+srv.URL)
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-renewals
	pid := cmd.Process.Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("status %v, %v", ws, err)
	}
	time.Sleep(2 * ttl) // the TTL has to pass in reality
	before := len(renewals)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "lost, late: true said so: false\n" {
		t.Errorf("child: %s", got)
	}
	if after := len(renewals); after != before {
		t.Errorf("%d renewals after the stop", after-before)
	}
}
