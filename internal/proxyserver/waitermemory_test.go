package proxyserver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/auth/authtest"
	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
)

// A blocked waiter takes a connection, two goroutines and its place, and not much more. The cost
// of a page of /pools depends on its content, not on the number of waiters.
func TestWaiterMemory(t *testing.T) {
	testWaiterMemory(t, Options{}, "")
}

// Checking a signature takes a deep stack, which a waiter does not keep.
func TestWaiterMemoryOfSignedTokens(t *testing.T) {
	key, issuer := authtest.NewKey(t, "k"), authtest.NewIssuer(t)
	issuer.Publish(key)
	rules := []auth.Rule{{Claims: map[string]string{"sub": "*"}, Name: "x"}}
	may := &auth.Config{Issuers: []auth.Issuer{{URL: issuer.URL, Audience: "leasectl", Rules: rules}}}
	testWaiterMemory(t, Options{Auth: may}, key.Sign(t, issuer.Claims(nil)))
}

// A token of the file takes no deeper stack than none.
func TestWaiterMemoryOfTokens(t *testing.T) {
	const secret = "0123456789abcdef"
	sum, err := auth.SumOf(secret)
	if err != nil {
		t.Fatal(err)
	}
	may := &auth.Config{Tokens: []auth.Token{{Name: "x", Sum: sum}}}
	testWaiterMemory(t, Options{Auth: may}, secret)
}

func testWaiterMemory(t *testing.T, opts Options, token string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opts.Pools, opts.Log = []pool.Config{quota(1)}, slog.New(laterHandler{})
	p := start(t, opts, l)
	authorization := ""
	if token != "" {
		p, authorization = withToken(p, token), "Authorization: Bearer "+token+"\r\n"
	}
	p.granted("type=q&request_id=holder")
	const n = 400 // twice as many descriptors fit in the lowest limit, 1024
	page := func() int {
		before := allocated()
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://localhost"+leaseapi.PathPools+"?limit=1", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		p.server.ServeHTTP(w, r)
		if w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return int(allocated() - before)
	}
	page() // makes everything that is made once
	before, stacks := inUse(), stackInUse()
	for i := range n {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 0\r\n\r\n", wiretest.Target(fmt.Sprintf("%s?type=q&owner=job-%d", leaseapi.PathAcquire, i)), authorization); err != nil {
			t.Fatal(err)
		}
	}
	p.waitingFor(n)
	each, stack := int(inUse()-before)/n, int(stackInUse()-stacks)/n
	t.Logf("%d bytes for each waiter, %d of them stack, %d for a page", each, stack, page())
	if most := 48 << 10; each > most { // 24 KiB, with 1 KiB of its client; twice the stack if a deep call meets the race detector
		t.Errorf("a waiter takes %d bytes, more than %d", each, most)
	}
	// 4 KiB for the handler, and as much for net/http's goroutine that notices the client's end. A
	// handler that needs a byte more than that has 8.
	if most := 10 << 10; stack > most && !raceDetector() {
		t.Errorf("the stacks of a waiter take %d bytes, more than %d", stack, most)
	}
	if got, most := page(), 100<<10; got > most { // 20 KiB
		t.Errorf("the smallest page takes %d bytes, more than %d", got, most)
	}
}

// laterHandler is a log like that of leasectl serve, which formats in a goroutine of its own:
// formatting in the goroutine of a request would double the stack of a waiter.
type laterHandler struct{ slog.Handler }

func (laterHandler) Enabled(context.Context, slog.Level) bool      { return true }
func (laterHandler) Handle(_ context.Context, r slog.Record) error { go r.NumAttrs(); return nil }

// raceDetector reports whether this test runs under the race detector, which needs more stack.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func stackInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.StackInuse
}

// inUse returns the bytes of the heap and the stacks after a collection.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
