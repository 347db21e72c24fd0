package proxyserver

import (
	"strconv"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// A long answer says its length, too, so that a client behind HTTP/1.0 sees whether the
// answer was cut.
func TestLongAnswerHasItsLength(t *testing.T) {
	t.Parallel()
	names := make([]string, 500)
	for i := range names {
		names[i] = strings.Repeat("n", 20) + strconv.Itoa(i)
	}
	p := start(t, Options{Pools: []pool.Config{{Type: "q", Names: names}}})
	p.granted("type=q&request_id=a&count=400")
	got := p.do("GET", leaseapi.PathPools, "")
	if want := strconv.Itoa(len(got.body)); got.status != 200 || len(got.body) < 10_000 || got.header.Get("Content-Length") != want {
		t.Errorf("got %d with %d bytes and Content-Length %q", got.status, len(got.body), got.header.Get("Content-Length"))
	}
}
