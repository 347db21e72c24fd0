package supervisor

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/child"
	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/dial"
	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/trap"
)

// calls is a proxy that grants one lease at a time, and remembers in which order
// it was asked.
type calls struct {
	mu     sync.Mutex
	made   []string
	refuse bool
	answer func(w http.ResponseWriter, r *http.Request) bool // instead of the proxy, if it returns true
}

func (c *calls) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.answer != nil && c.answer(w, r) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	what, ours := strings.CutPrefix(r.URL.Path, "/lease/")
	if !ours { // of a test in another process, whose server had this port before
		http.NotFound(w, r)
		return
	}
	c.made = append(c.made, what)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(leaseapi.HeaderWire, strconv.Itoa(leaseapi.Wire))
	switch {
	case what == "acquire" && c.refuse:
		http.Error(w, `Failed to acquire lease "t": resource type not found`, http.StatusNotFound)
	case what == "acquire":
		json.NewEncoder(w).Encode(leaseapi.AcquireReply{
			Names: []string{"a"}, Leases: []leaseapi.Lease{{Name: "a", Generation: uint64(len(c.made))}},
			RequestID: wiretest.Asked(r).RequestID, TTL: leaseapi.Duration(5 * time.Minute), RenewEvery: leaseapi.Duration(time.Minute),
		})
	case what == "release":
		json.NewEncoder(w).Encode(leaseapi.ReleaseReply{Released: []string{"a"}})
	case what == "renew":
		json.NewEncoder(w).Encode(leaseapi.RenewReply{TTL: leaseapi.Duration(5 * time.Minute), RenewEvery: leaseapi.Duration(time.Minute)})
	default:
		http.NotFound(w, r)
	}
}

// silent is a Reporter that says nothing.
type silent struct{}

func (silent) Failf(string, ...any)               {}
func (silent) Notef(string, ...any)               {}
func (silent) Debugf(string, ...any)              {}
func (silent) Flush()                             {}
func (silent) Waiting(*holder.Wait) (stop func()) { return func() {} }

// run runs a shell script with leases of the proxy c.
func run(t *testing.T, c *calls, script string, change func(*Options)) (End, error) {
	t.Helper()
	server := httptest.NewServer(c)
	defer server.Close()
	h := holder.New(holder.Options{
		StateDir: filepath.Join(t.TempDir(), "state"), Owner: "job-1", Report: silent{},
		Proxy: dial.Options{URL: server.URL},
	})
	defer h.Close()
	handle, err := h.NewHandle("")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Args: []string{"sh", "-c", script}, Environment: os.Environ(),
		Request:  holder.Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: handle, Private: true, WaitTimeout: time.Minute},
		Attempts: 1, GracePeriod: time.Second, Signals: trap.NewChain(), Report: silent{},
	}
	change(&o)
	return Run(t.Context(), h, o)
}

// Each attempt has a lease of its own, which the next one replaces; the last is given back. An exit
// code that is not in RetryOn ends the attempts.
func TestAttempts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script string
		code   int
		leases int
	}{
		{"succeeds", "exit 0", 0, 1},
		{"another code", "exit 5", 5, 1},
		{"retried to the end", "exit 4", 4, 3},
		{"the second succeeds", "test -e \"$MARK\" && exit 0; touch \"$MARK\"; exit 4", 0, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := new(calls)
			mark := filepath.Join(t.TempDir(), "mark")
			end, err := run(t, c, tt.script, func(o *Options) {
				o.Attempts, o.RetryOn = 3, []int{4}
				o.Environment = append(o.Environment, "MARK="+mark)
			})
			if err != nil || end.Status.Code != tt.code || end.stopped() {
				t.Errorf("%+v, %v", end, err)
			}
			want := append(slices.Repeat([]string{"acquire"}, tt.leases), "release")
			if got := slices.DeleteFunc(c.made, func(what string) bool { return what == "renew" }); !slices.Equal(got, want) {
				t.Errorf("the proxy was asked for %v, want %v", got, want)
			}
		})
	}
}

// Without a lease the command runs if the lease is optional, and only then.
func TestOptional(t *testing.T) {
	for _, optional := range []bool{true, false} {
		ran := filepath.Join(t.TempDir(), "ran")
		end, err := run(t, &calls{refuse: true}, `test "$LEASECTL_STATE" = degraded && touch '`+ran+`'`, func(o *Options) {
			o.Optional, o.Request.WaitTimeout = optional, time.Second // which is waited, in vain
		})
		if _, missing := os.Stat(ran); (missing == nil) != optional || (err == nil) != optional || end.Status.Code != 0 {
			t.Errorf("optional %t: %+v, %v; ran: %t", optional, end, err, missing == nil)
		}
	}
}

// A missing command is noticed before a lease is requested.
func TestNoSuchCommand(t *testing.T) {
	c := new(calls)
	_, err := run(t, c, "", func(o *Options) { o.Args = []string{"no-such-command"} })
	if !errors.Is(err, child.ErrNotFound) || len(c.made) > 0 {
		t.Errorf("%v; the proxy was asked for %v", err, c.made)
	}
}
