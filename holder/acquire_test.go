package holder

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leasectl/leasectl/holder/holdertest"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// In each of its phases a lease has written down what a killed process would leave.
func TestPhases(t *testing.T) {
	for _, private := range []bool{false, true} {
		w := newWorld(t)
		handle := w.handle("handle")
		w.proxy.OnAcquire = func(http.ResponseWriter, *http.Request) bool {
			if n := w.journalEntries(); n != 1 {
				t.Errorf("private %t: the proxy is asked with %d journal entries", private, n)
			}
			want := lockfile.StateQueued
			if private {
				want = ""
			}
			if r := w.record(handle); r.State != want {
				t.Errorf("private %t: the proxy is asked while the handle is %q, want %q", private, r.State, want)
			}
			return false
		}
		l, err := w.Acquire(within(t), Request{Type: "t", Count: 1, Handle: handle, Private: private, WaitTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if r := w.record(handle); r.State != lockfile.StateHeld || len(r.Names()) != 1 || l.phase != recorded || l.Generation() != 1 {
			t.Errorf("private %t: %+v in phase %d, generation %d", private, r, l.phase, l.Generation())
		}
		if w.journalEntries() != 1 {
			t.Errorf("private %t: a lease for the life of its process is not in the journal", private)
		}
		if names, err := l.Release(within(t)); err != nil || len(names) != 1 {
			t.Errorf("private %t: released %v, %v", private, names, err)
		}
		w.wantNothingLeft(handle, "lease1")
		if names, err := l.Release(within(t)); err != nil || len(names) > 0 {
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
			arrange: func(w *world, r *Request) { w.put(w.handle("handle"), "other") },
			want:    ErrHeld,
		},
		{
			name:    "enqueued: refused",
			arrange: func(w *world, _ *Request) { w.proxy.OnAcquire = unknownType },
			want:    proxyclient.ErrUnknownType,
		},
		{
			name: "granted: another process took the handle over",
			arrange: func(w *world, r *Request) {
				w.proxy.OnAcquire = func(http.ResponseWriter, *http.Request) bool {
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
				r.List = lockfile.List(filepath.Join(w.dir, "nowhere", "leases"))
			},
			want: fs.ErrNotExist,
		},
		{
			name: "recorded: the list cannot be written any more",
			arrange: func(w *world, r *Request) {
				list := filepath.Join(w.dir, "leases")
				r.List = lockfile.List(list)
				w.proxy.OnAcquire = func(http.ResponseWriter, *http.Request) bool {
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
				w.proxy.RenewEvery = time.Nanosecond // the answer is late already
				w.proxy.OnAcquire = func(out http.ResponseWriter, r *http.Request) bool {
					switch w.proxy.Asked() {
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
			name: "granted: the answer is old, and asking again is refused",
			arrange: func(w *world, _ *Request) {
				w.proxy.RenewEvery = time.Nanosecond // the answer is late already
				w.proxy.OnAcquire = func(out http.ResponseWriter, r *http.Request) bool {
					return w.proxy.Asked() > 1 && unknownType(out, r)
				}
			},
			want:     proxyclient.ErrUnknownType,
			released: []string{"lease1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			handle := w.handle("handle")
			r := Request{Type: "t", Count: 1, Handle: handle, WaitTimeout: time.Second}
			tt.arrange(w, &r)
			if _, err := w.Acquire(within(t), r); err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if other := w.record(handle); other.RequestID == "other" {
				w.write(handle, lockfile.Record{}) // nobody else removed it
			} else if errors.Is(tt.want, ErrHeld) || errors.Is(tt.want, ErrReplaced) {
				t.Errorf("the other process's handle is changed: %+v", other)
			}
			w.wantNothingLeft(handle, tt.released...)
		})
	}
}

// put writes another process's request into a handle.
func (w *world) put(handle lockfile.Handle, request string) {
	w.t.Helper()
	w.write(handle, lockfile.Record{State: lockfile.StateQueued, RequestID: request, Proxy: w.proxy.URL})
}

// If giving back fails too, the journal keeps the request, unlocked, for the next
// run, and the error says both.
func TestRollbackThatFails(t *testing.T) {
	w := newWorld(t)
	handle := w.handle("handle")
	ctx, end := context.WithCancel(within(t))
	w.proxy.OnAcquire = func(http.ResponseWriter, *http.Request) bool {
		w.put(handle, "other")
		return false
	}
	w.proxy.OnRelease = func(out http.ResponseWriter, r *http.Request) bool {
		end() // so that it is tried for 3 s, not for 9.5 s
		return holdertest.Fails(out, r)
	}
	_, err := w.Acquire(ctx, Request{Type: "t", Count: 1, Handle: handle, WaitTimeout: time.Second})
	if !errors.Is(err, ErrReplaced) || len(w.proxy.Released()) == 0 {
		t.Errorf("error %v, released %v", err, w.proxy.Released())
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
			w.proxy.OnRenew = tt.onRenew
			handle := w.handle("handle")
			l, err := w.Acquire(within(t), Request{Type: "t", Count: 1, Handle: handle, WaitTimeout: time.Minute, Outlives: true})
			if err != nil {
				t.Fatal(err)
			}
			if n := w.proxy.Renewed(); n != 0 {
				t.Errorf("renewed %d times before the handle was delivered", n)
			}
			err = l.HandOver(within(t), HandOver{}, func() error { return tt.deliver })
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if tt.want != nil {
				w.wantNothingLeft(handle, "lease1")
				return
			}
			if r := w.record(handle); r.State != lockfile.StateHeld || w.journalEntries() != 0 || w.proxy.Renewed() != 1 {
				t.Errorf("%+v, %d journal entries, %d renewals", r, w.journalEntries(), w.proxy.Renewed())
			}
		})
	}
}

// A handle whose leases are replaced gives them back before it asks for others.
func TestReplace(t *testing.T) {
	w := newWorld(t)
	handle := w.handle("handle")
	first := Request{Type: "t", Count: 1, Handle: handle, WaitTimeout: time.Minute}
	if _, err := w.Acquire(within(t), first); err != nil {
		t.Fatal(err)
	}
	w.proxy.OnAcquire = func(http.ResponseWriter, *http.Request) bool {
		if got := w.proxy.Released(); len(got) != 1 {
			t.Errorf("asked anew with %v released", got)
		}
		return false
	}
	second := first
	second.Replaces = Anything
	l, err := w.Acquire(within(t), second)
	if err != nil {
		t.Fatal(err)
	}
	if r := w.record(handle); !l.Is(r) || w.journalEntries() != 1 {
		t.Errorf("%+v, %d journal entries", r, w.journalEntries())
	}
}
