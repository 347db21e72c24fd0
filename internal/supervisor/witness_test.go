package supervisor

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
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

// A proxy of version 1 takes no reports. That is no failure of a run, even if the command removed
// its handle, so that no release can take the report along.
func TestReportToVersionOne(t *testing.T) {
	c := &calls{answer: func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/acquire") {
			return false
		}
		io.WriteString(w, `{"names": ["a"]}`)
		return true
	}}
	said := make(chan struct{}, 10)
	end, err := run(t, c, `rm "$LEASECTL_HANDLE"; exit 4`, func(o *Options) {
		o.Witness.ThrottledOn = []int{4}
		o.Report = heard{said: said}
	})
	if err != nil || end.Status.Code != 4 || len(said) > 0 {
		t.Errorf("%+v, %v, and %d failures were reported", end, err, len(said))
	}
}
