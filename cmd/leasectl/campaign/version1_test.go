package campaign

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/leasectl/leasectl/internal/holder/recovery"
	"github.com/leasectl/leasectl/leaseapi"
)

// versionOne is a version-1 proxy, which never runs out of leases.
type versionOne struct {
	mu    sync.Mutex
	held  []string // as the proxy knows
	wrong []string // names that were released and not held
}

// newVersionOneWorld returns a world with a version-1 proxy.
func newVersionOneWorld(t *testing.T, program string) *world {
	t.Helper()
	w := newBareWorld(t, program)
	w.one = new(versionOne)
	address, _ := w.Listen(w.one)
	w.Env = append(os.Environ(), "LEASECTL_STATE_DIR="+w.Path("state"), "LEASECTL_OWNER=job-1", "LEASE_PROXY_SERVER_URL="+address)
	t.Cleanup(w.NoneLeft)
	return w
}

func (v *versionOne) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch req.URL.Path {
	case leaseapi.PathAcquire:
		n := 0
		for slices.Contains(v.held, fmt.Sprintf("install-%d", n)) {
			n++
		}
		v.held = append(v.held, fmt.Sprintf("install-%d", n))
		json.NewEncoder(w).Encode(map[string]any{"names": v.held[len(v.held)-1:]})
	case leaseapi.PathRelease:
		var body struct{ Names []string }
		json.NewDecoder(req.Body).Decode(&body)
		for _, name := range body.Names {
			at := slices.Index(v.held, name)
			if at < 0 {
				v.wrong = append(v.wrong, name)
				http.Error(w, fmt.Sprintf("Failed to release lease %s: no resource name %s", name, name), http.StatusInternalServerError)
				return
			}
			v.held = slices.Delete(v.held, at, at+1)
		}
	default:
		http.NotFound(w, req)
	}
}

// heldNow and wrongNow return what the proxy knows. A call of a killed process may still be under way.
func (v *versionOne) heldNow() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.held)
}

func (v *versionOne) wrongNow() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.wrong)
}

// empty makes the proxy forget all leases, as its operator does with those that nobody has.
func (v *versionOne) empty() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = nil
}

// recovered runs recover, and returns the names that it lists as unconfirmed, and how many requests
// without a name.
func (w *world) recovered() (names []string, unnamed int) {
	for _, a := range w.actions() {
		if a.Result != recovery.Unconfirmed {
			continue
		}
		if names = append(names, a.Names...); len(a.Names) == 0 {
			unnamed++
		}
	}
	return names, unnamed
}

func (w *world) actions() (actions []recovery.Action) {
	w.T.Helper()
	out, _ := w.Command("recover", "--output", "json").Output() // exits with 1 if something is unconfirmed
	var doc struct{ Actions []recovery.Action }
	if err := json.Unmarshal(out, &doc); err != nil {
		w.T.Fatalf("recover: %v: %s", err, out)
	}
	return doc.Actions
}

func (w *world) forget() {
	for _, a := range w.actions() {
		if a.Result == recovery.Unconfirmed {
			w.Command("recover", "--forget", a.ID).Run() // exits with 1 if more is unconfirmed
		}
	}
}

// settleVersionOne runs recover, and has it forget what stays unconfirmed, which the proxy may have
// as well as not. Anything else that the proxy still has fails the test.
func (w *world) settleVersionOne() {
	w.T.Helper()
	listed, unnamed := w.recovered()
	for _, name := range w.one.heldNow() {
		if !slices.Contains(listed, name) && unnamed == 0 {
			w.T.Errorf("%s is held, and nothing says so: listed %v", name, listed)
		}
	}
	w.forget()
	if listed, unnamed := w.recovered(); len(listed)+unnamed > 0 {
		w.T.Errorf("forgotten, and listed again: %v", listed)
	}
	if wrong := w.one.wrongNow(); len(wrong) > 0 {
		w.T.Errorf("released although nobody held it: %v", wrong)
	}
	if left, _ := filepath.Glob(w.Path("state/version1/*")); len(left) > 0 {
		w.T.Errorf("left are %v", left)
	}
	w.one.empty()
}
