package supervisor

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// The end of a run waits at most reportTime for a proxy that takes no report, even if the log
// said something after the lease was given back.
func TestSilentProxyAfterALateRelease(t *testing.T) {
	before := reportTime
	t.Cleanup(func() { reportTime = before })
	reportTime = 50 * time.Millisecond
	log := filepath.Join(t.TempDir(), "log")
	c := &calls{answer: func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case leaseapi.PathHealth:
			w.Write([]byte(`{"wire": 3}`))
			return true
		case leaseapi.PathReport:
			io.Copy(io.Discard, r.Body) // only then the server notices that the client leaves
			<-r.Context().Done()
			return true
		}
		return false
	}}
	script := `while test -e "$LEASECTL_HANDLE"; do sleep 0.01; done; echo throttled >"` + log + `"`
	var begun time.Time
	end, err := run(t, c, script, func(o *Options) {
		o.ReleaseAfter = time.Millisecond
		o.Witness = Witness{Log: log, Throttled: regexp.MustCompile("throttled")}
		begun = time.Now()
	})
	if took := time.Since(begun); took > 5*time.Second || err != nil || end.Status.Code != 0 {
		t.Errorf("it took %v: %+v, %v", took, end, err)
	}
}
