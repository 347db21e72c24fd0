package shared

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/holdertest"
	"github.com/leasectl/leasectl/internal/holder/service"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Two services are the same only if all of their commands is, however long they are.
func TestSameService(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, tt := range []struct {
		name string
		a, b *lockfile.Service
		same bool
	}{
		{"none", nil, nil, true},
		{"one", nil, &lockfile.Service{Command: "a"}, false},
		{"of another user", &lockfile.Service{Command: "a", Timeout: 1, Group: 7}, &lockfile.Service{Command: "a"}, true},
		{"long command", &lockfile.Service{Command: long + "a"}, &lockfile.Service{Command: long + "b"}, false},
		{"long expression", &lockfile.Service{Command: "a", Ready: long + "a"}, &lockfile.Service{Command: "a", Ready: long + "b"}, false},
	} {
		for _, pair := range [][2]*lockfile.Service{{tt.a, tt.b}, {tt.b, tt.a}} {
			l := lease{shown: "A", wanted: lockfile.Round{Service: pair[0]}}
			if err := l.conflict(lockfile.Round{Service: pair[1]}); (err == nil) != tt.same {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
	}
}

// The group of a service is killed only if its number is one of this PID namespace; elsewhere it
// may be another group's.
func TestEndService(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.Dir, "shared")
	if err := lockfile.MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, space string
		killed      bool
	}{
		{"here", processSpace(), true},
		{"elsewhere", "another", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			group := exec.Command("sleep", "600")
			group.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := group.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				group.Wait()
				close(ended)
			}()
			defer func() {
				group.Process.Kill()
				<-ended
			}()
			file := lockfile.Shared(filepath.Join(dir, tt.name))
			r := lockfile.Round{ID: "R1", State: lockfile.RoundReleasing, Service: &lockfile.Service{Group: group.Process.Pid}}
			err := file.Update(t.Context(), func(tx *lockfile.SharedTx) error {
				tx.Space, tx.Rounds = tt.space, []lockfile.Round{r}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			guard, err := file.OpenGuard(r.ID)
			if err != nil {
				t.Fatal(err)
			}
			defer guard.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if err := leaseIn(w.Holder, file).endService(ctx, r); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("with a live guard: %v", err)
			}
			select {
			case <-ended:
				if !tt.killed {
					t.Error("it was killed")
				}
			default:
				if tt.killed {
					t.Error("it was not killed")
				}
			}
			guard.Close()
			if err := leaseIn(w.Holder, file).endService(t.Context(), r); err != nil {
				t.Errorf("without a guard: %v", err)
			}
		})
	}
}

// A service that ignores TERM is gone before its lease ends, however long its grace period is: if the
// lease is lost while the service stops, and if that was known before.
func TestServiceStopsBeforeItsLeaseEnds(t *testing.T) {
	for _, before := range []bool{true, false} {
		dir := t.TempDir()
		guard, err := os.Create(filepath.Join(dir, "guard"))
		if err != nil {
			t.Fatal(err)
		}
		running, err := service.Start(service.Options{
			Command: `trap '' TERM; echo A=b; while :; do sleep 0.1; done`, Dir: dir, Env: os.Environ(),
			Ready: regexp.MustCompile(`A=`), Log: filepath.Join(dir, "log"), Guard: guard,
		})
		if err != nil {
			t.Fatal(err)
		}
		<-running.Ready() // it ignores TERM
		renewed, lose := context.WithCancelCause(t.Context())
		k := &serviceKeeper{running: running, renewed: renewed}
		deadline := proxyclient.Now().Add(serviceMargin)
		loss := &holder.Loss{Err: errors.New("lost"), Deadline: deadline}
		stopped := make(chan struct{})
		if before {
			lose(loss)
		}
		go func() {
			defer close(stopped)
			k.stopWithin(time.Hour)
		}()
		lose(loss)
		select {
		case <-stopped:
		case <-holdertest.Within(t).Done():
			t.Fatal("the service outlives its lease")
		}
		running.Kill()
		running.Stop(0)
	}
}
