package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/leaseapi"
)

// A resize whose answer is lost is repeated, and done once. A late copy of a resize, as a proxy
// between client and server may send it, does nothing. That holds also if the lease again holds as
// many units as before the resize, and if there is now room for a resize that was refused. Before,
// both copies made the lease grow.
func TestLateCopyOfResize(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(config, []byte("resources: [{type: mem, units: 64}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorldOf(t, clitest.Build(t, ""), "--config", config)
	direct := w.Variable("LEASE_PROXY_SERVER_URL")
	var mu sync.Mutex
	var resizes [][]byte // the bodies, in their order
	w.RelayAnswers(func(req *http.Request) bool {
		if req.URL.Path != leaseapi.PathResize {
			return true
		}
		body, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
		mu.Lock()
		defer mu.Unlock()
		resizes = append(resizes, body)
		return len(resizes) > 1
	})
	resize := func(code int, count, want string) {
		t.Helper()
		if out := w.Run(code, "resize", "--handle", w.Path("h"), "--count", count); out != want {
			t.Errorf("resize to %s printed %q, want %q", count, out, want)
		}
	}
	w.Run(0, "acquire", "--type", "mem", "--count", "10", "--handle", w.Path("h"))
	w.Run(0, "acquire", "--type", "mem", "--count", "40", "--handle", w.Path("other"))
	resize(0, "20", "20\n")
	resize(0, "10", "10\n")
	resize(75, "50", "")
	w.Run(0, "release", "--handle", w.Path("other"))
	if len(resizes) != 4 || !bytes.Equal(resizes[0], resizes[1]) {
		t.Fatalf("sent %s: want the first, whose answer was lost, twice", bytes.Join(resizes, []byte(", ")))
	}
	if grown := strings.Count(w.Log.String(), "units=20 before=10"); grown != 1 {
		t.Errorf("the lease grew %d times\n%s", grown, w.Log)
	}
	client := &http.Client{Transport: clitest.UnixTransport(strings.TrimPrefix(direct, "unix://"))}
	for _, body := range resizes {
		answer, err := client.Post("http://proxy"+leaseapi.PathResize, "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var p leaseapi.Problem
		if err := json.NewDecoder(answer.Body).Decode(&p); err != nil || p.Type != leaseapi.ProblemStale || p.Held != 10 || p.Resizes != 3 {
			t.Errorf("a late copy of %s: %d %+v, %v", body, answer.StatusCode, p, err)
		}
		answer.Body.Close()
		if used := w.Pool("mem").InUse; used != 10 {
			t.Errorf("after a late copy of %s %d units are in use", body, used)
		}
	}
	resize(0, "64", "64\n")
	w.Run(0, "release", "--handle", w.Path("h"))
	w.WantHeld()
}
