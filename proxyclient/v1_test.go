package proxyclient

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// version1 is a proxy like the deployed ones: it knows only names.
type version1 struct {
	t    *testing.T
	wait time.Duration // its own bound on a blocked acquire; zero: none
	slow time.Duration // how long a release takes

	mu       sync.Mutex
	free     []string // of the only type, "t"
	held     []string
	queue    []chan string
	acquires int
	query    string   // of the last acquire
	releases []string // the bodies
	broken   int      // so many releases fail, since the store is away
	forgets  bool     // it forgets the names of failed releases, as deployed proxies do
	reply    string   // the answer of an acquire, after the grant; empty: the granted names
}

func newVersion1(t *testing.T, names ...string) *version1 { return &version1{t: t, free: names} }

func (v *version1) state() (held []string, queued int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(slices.Values(v.held)), len(v.queue)
}

func (v *version1) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != leaseapi.PathAcquire && r.URL.Path != leaseapi.PathRelease:
		http.NotFound(w, r)
	case r.Method != http.MethodPost:
		http.Error(w, fmt.Sprintf("Method %s not allowed, POST requests only.", r.Method), http.StatusMethodNotAllowed)
	case r.URL.Path == leaseapi.PathAcquire:
		v.acquire(w, r)
	default:
		v.release(w, r)
	}
}

func (v *version1) acquire(w http.ResponseWriter, r *http.Request) {
	typ, count := r.URL.Query().Get("type"), r.URL.Query().Get("count")
	n, err := strconv.ParseUint(cmp.Or(count, "1"), 10, 64)
	switch {
	case typ == "":
		http.Error(w, "type is required", http.StatusBadRequest)
	case err != nil:
		http.Error(w, fmt.Sprintf("parameter %q is not valid: %s", "count", count), http.StatusBadRequest)
	case typ != "t":
		http.Error(w, fmt.Sprintf("Failed to acquire lease %q: resource type not found", typ), http.StatusNotFound)
	default:
		if n != 1 {
			v.t.Errorf("a version-1 proxy was asked for %d at once", n)
		}
		name := v.take(r)
		switch {
		case name == "" && r.Context().Err() == nil:
			http.Error(w, `Failed to acquire lease "t": resources not found`, http.StatusInternalServerError)
		case v.reply != "":
			w.Write([]byte(v.reply))
		default:
			w.Header().Set("Content-Type", "application/json")
			json, _ := json.Marshal(map[string][]string{"names": {name}})
			w.Write(json)
		}
	}
}

// take blocks until it has a name, the caller is gone, or the wait is over.
func (v *version1) take(r *http.Request) string {
	v.mu.Lock()
	v.acquires++
	v.query = r.URL.RawQuery
	if len(v.free) > 0 {
		defer v.mu.Unlock()
		name := v.free[0]
		v.free = v.free[1:]
		v.held = append(v.held, name)
		return name
	}
	mine := make(chan string, 1)
	v.queue = append(v.queue, mine)
	v.mu.Unlock()
	var over <-chan time.Time
	if v.wait > 0 {
		over = time.After(v.wait)
	}
	select {
	case name := <-mine:
		return name
	case <-r.Context().Done():
	case <-over:
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if i := slices.Index(v.queue, mine); i >= 0 {
		v.queue = slices.Delete(v.queue, i, i+1)
		return ""
	}
	return <-mine
}

func (v *version1) release(w http.ResponseWriter, r *http.Request) {
	var req struct{ Names []string }
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	time.Sleep(v.slow)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.releases = append(v.releases, strings.Join(req.Names, " "))
	for i, n := range req.Names {
		why := ""
		if v.broken > 0 {
			v.broken--
			why = "the store is away"
			if v.forgets {
				v.held = slices.DeleteFunc(v.held, func(h string) bool { return h == n })
			}
		} else if !v.put(n) {
			why = "no resource name " + n
		}
		if why != "" {
			http.Error(w, fmt.Sprintf("Failed to release lease %s: %s, Released: %s", n, why, strings.Join(req.Names[:i], " ")), http.StatusInternalServerError)
			return
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// put hands a name to the first waiter, or back to the pool.
func (v *version1) put(name string) bool {
	i := slices.Index(v.held, name)
	if i < 0 {
		return false
	}
	if len(v.queue) > 0 {
		v.queue[0] <- name
		v.queue = v.queue[1:]
		return true
	}
	v.held = slices.Delete(v.held, i, i+1)
	v.free = append(v.free, name)
	return true
}
