package holder

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/holder/holdertest"
	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// In each of its phases a lease has written down what a killed process would leave.
func TestPhases(t *testing.T) {
	for _, private := range []bool{false, true} {
		w := newWorld(t)
		handle := w.Handle("handle")
		w.Proxy.OnAcquire = func(http.ResponseWriter, *http.Request) bool {
			if n := w.JournalEntries(); n != 1 {
				t.Errorf("private %t: the proxy is asked with %d journal entries", private, n)
			}
			want := lockfile.HandleQueued
			if private {
				want = ""
			}
			if r := w.record(handle); r.State != want {
				t.Errorf("private %t: the proxy is asked while the handle is %q, want %q", private, r.State, want)
			}
			return false
		}
		l, err := w.Acquire(holdertest.Within(t), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: handle, Private: private, WaitTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if r := w.record(handle); r.State != lockfile.HandleHeld || len(r.Names()) != 1 || l.phase != recorded || l.Generation() != 1 {
			t.Errorf("private %t: %+v in phase %d, generation %d", private, r, l.phase, l.Generation())
		}
		if w.JournalEntries() != 1 {
			t.Errorf("private %t: a lease for the life of its process is not in the journal", private)
		}
		if names, err := l.Release(holdertest.Within(t)); err != nil || len(names) != 1 {
			t.Errorf("private %t: released %v, %v", private, names, err)
		}
		w.WantNothingLeft(handle, "lease1")
		if names, err := l.Release(holdertest.Within(t)); err != nil || len(names) > 0 {
			t.Errorf("private %t: released again: %v, %v", private, names, err)
		}
	}
}

// An acquire that fails undoes the steps of its phases.
func TestRollback(t *testing.T) {
	unknownType := func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, `Failed to acquire lease "t": resource type not found`, http.StatusNotFound)
		return true
	}
	for _, tt := range []struct {
		name     string
		arrange  func(w *world, r *Request)
		want     error
		released []string
	}{
		{
			name:    "intended: the handle is taken",
			arrange: func(w *world, r *Request) { w.put(w.Handle("handle"), "other") },
			want:    ErrHeld,
		},
		{
			name:    "enqueued: refused",
			arrange: func(w *world, _ *Request) { w.Proxy.OnAcquire = unknownType },
			want:    proxyclient.ErrUnknownType,
		},
		{
			name: "granted: another process took the handle over",
			arrange: func(w *world, r *Request) {
				w.Proxy.OnAcquire = func(http.ResponseWriter, *http.Request) bool {
					w.put(r.Handle, "other")
					return false
				}
			},
			want:     ErrReplaced,
			released: []string{"lease1"},
		},
		{
			name: "intended: the list cannot be written",
			arrange: func(w *world, r *Request) {
				r.List = lockfile.List(filepath.Join(w.Dir, "nowhere", "leases"))
			},
			want: fs.ErrNotExist,
		},
		{
			name: "recorded: the list cannot be written any more",
			arrange: func(w *world, r *Request) {
				list := filepath.Join(w.Dir, "leases")
				r.List = lockfile.List(list)
				w.Proxy.OnAcquire = func(http.ResponseWriter, *http.Request) bool {
					if err := os.Mkdir(list, 0o700); err != nil {
						t.Error(err)
					}
					return false
				}
			},
			released: []string{"lease1"},
		},
		{
			name: "enqueued: the grant has ended, and asking anew is refused",
			arrange: func(w *world, _ *Request) {
				w.Proxy.RenewEvery = time.Nanosecond // the answer is late already
				w.Proxy.OnAcquire = func(out http.ResponseWriter, r *http.Request) bool {
					switch w.Proxy.Asked() {
					case 1:
						return false
					case 2:
						return holdertest.EndedUnseen(out, r)
					}
					return unknownType(out, r)
				}
			},
			want: proxyclient.ErrUnknownType,
		},
		{
			name: "enqueued: each grant has ended",
			arrange: func(w *world, _ *Request) {
				w.Proxy.OnAcquire = func(out http.ResponseWriter, r *http.Request) bool {
					if w.Proxy.Asked() > 20 { // not ever faster, and not for ever
						t.Error("it asks again and again")
						return unknownType(out, r)
					}
					return holdertest.EndedUnseen(out, r)
				}
			},
			want: proxyclient.ErrExhausted,
		},
		{
			name: "granted: the answer is old, and asking again is refused",
			arrange: func(w *world, _ *Request) {
				w.Proxy.RenewEvery = time.Nanosecond // the answer is late already
				w.Proxy.OnAcquire = func(out http.ResponseWriter, r *http.Request) bool {
					return w.Proxy.Asked() > 1 && unknownType(out, r)
				}
			},
			want:     proxyclient.ErrUnknownType,
			released: []string{"lease1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			handle := w.Handle("handle")
			r := Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: handle, WaitTimeout: time.Second}
			tt.arrange(w, &r)
			if _, err := w.Acquire(holdertest.Within(t), r); err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if other := w.record(handle); other.RequestID == "other" {
				w.Write(handle, lockfile.Record{}) // nobody else removed it
			} else if errors.Is(tt.want, ErrHeld) || errors.Is(tt.want, ErrReplaced) {
				t.Errorf("the other process's handle is changed: %+v", other)
			}
			w.WantNothingLeft(handle, tt.released...)
		})
	}
}

// put writes another process's request into a handle.
func (w *world) put(handle lockfile.Handle, request string) {
	w.T.Helper()
	w.Write(handle, lockfile.Record{State: lockfile.HandleQueued, RequestID: request, Proxy: w.Proxy.URL})
}

// If giving back fails too, the journal keeps the request, unlocked, for the next
// run, and the error says both.
func TestRollbackThatFails(t *testing.T) {
	w := newWorld(t)
	handle := w.Handle("handle")
	ctx, end := context.WithCancel(holdertest.Within(t))
	w.Proxy.OnAcquire = func(http.ResponseWriter, *http.Request) bool {
		w.put(handle, "other")
		return false
	}
	w.Proxy.OnRelease = func(out http.ResponseWriter, r *http.Request) bool {
		end() // so that it is tried for 3 s, not for 9.5 s
		return holdertest.Fails(out, r)
	}
	_, err := w.Acquire(ctx, Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: handle, WaitTimeout: time.Second})
	if !errors.Is(err, ErrReplaced) || len(w.Proxy.Released()) == 0 {
		t.Errorf("error %v, released %v", err, w.Proxy.Released())
	}
	handed := 0
	dead := w.Holder.Journal.Journal().SettleDead(t.Context(), func(in lockfile.Intent) bool { handed++; return false })
	if dead != nil || handed != 1 {
		t.Errorf("the journal hands on %d entries, %v", handed, dead)
	}
}

// A lease that outlives its process is left to its handle once the handle was delivered and the
// proxy has confirmed the lease. Otherwise it is given back.
func TestHandOver(t *testing.T) {
	undelivered := errors.New("stdout is closed")
	for _, tt := range []struct {
		name    string
		deliver error
		onRenew func(http.ResponseWriter, *http.Request) bool
		want    error
	}{
		{name: "delivered"},
		{name: "not delivered", deliver: undelivered, want: undelivered},
		{name: "not confirmed", onRenew: holdertest.Lost, want: proxyclient.ErrLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.Proxy.OnRenew = tt.onRenew
			handle := w.Handle("handle")
			l, err := w.Acquire(holdertest.Within(t), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: handle, WaitTimeout: time.Minute, Outlives: true})
			if err != nil {
				t.Fatal(err)
			}
			if n := w.Proxy.Renewed(); n != 0 {
				t.Errorf("renewed %d times before the handle was delivered", n)
			}
			err = l.HandOver(holdertest.Within(t), HandOver{}, func() error { return tt.deliver })
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if tt.want != nil {
				w.WantNothingLeft(handle, "lease1")
				return
			}
			if r := w.record(handle); r.State != lockfile.HandleHeld || w.JournalEntries() != 0 || w.Proxy.Renewed() != 1 {
				t.Errorf("%+v, %d journal entries, %d renewals", r, w.JournalEntries(), w.Proxy.Renewed())
			}
		})
	}
}

// A handle whose leases are replaced gives them back in the request for others, or before it if the release has
// to tell more than that.
func TestReplace(t *testing.T) {
	w := newWorld(t)
	handle := w.Handle("handle")
	first := Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: handle, WaitTimeout: time.Minute}
	if _, err := w.Acquire(holdertest.Within(t), first); err != nil {
		t.Fatal(err)
	}
	tells := false
	w.Proxy.OnAcquire = func(_ http.ResponseWriter, r *http.Request) bool {
		if replaces, released := len(wiretest.Asked(r).Replaces) > 0, len(w.Proxy.Released()) > 0; replaces == tells || released != tells {
			t.Errorf("tells %t: asked for others in the place of what it had is %t, after a release is %t", tells, replaces, released)
		}
		return false
	}
	second := first
	second.Replaces = Anything
	for _, tells = range []bool{false, true} {
		l, err := w.Acquire(holdertest.Within(t), second)
		if err != nil {
			t.Fatal(err)
		}
		if r := w.record(handle); !l.Is(r) || w.JournalEntries() != 1 {
			t.Errorf("%+v, %d journal entries", r, w.JournalEntries())
		}
		l.Tell(Outcome{Word: leaseapi.OutcomeThrottled})
	}
}

// A list whose lock somebody keeps is an error before anything is asked for, and no wait without an end.
func TestListThatStaysLocked(t *testing.T) {
	list := lockfile.List(filepath.Join(t.TempDir(), "leases"))
	unlock, err := lockfile.Lock(string(list) + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := checkList(ctx, list); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Errorf("error %v, and the wait: %v", err, ctx.Err())
		}
	})
}
