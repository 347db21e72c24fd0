package main

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// bareAt serves a bare peer and returns its address.
func bareAt(t *testing.T, name string) string {
	t.Helper()
	ledger, err := bareNamed[name](t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(newBare(ledger))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// Each bare peer speaks version 1, and gives each name to one client at a time.
func TestBarePeers(t *testing.T) {
	for _, name := range []string{"channels", "update", "batch"} {
		t.Run(name, func(t *testing.T) {
			addr := bareAt(t, name)
			rate, err := throughput(addr, 4, 50*time.Millisecond, func(c *wire, _ int) error { return c.pair("many") })
			if err != nil || rate <= 0 {
				t.Errorf("%v pairs per second, %v", rate, err)
			}
			took, err := handOffs(addr, 5)
			if err != nil || len(took) != 5 {
				t.Errorf("hand-offs took %v, %v", took, err)
			}
		})
	}
}

// Waiters are in the queue when line returns, and are gone when it is closed.
func TestLine(t *testing.T) {
	addr := bareAt(t, "channels")
	holder, err := dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.close()
	if err := holder.acquiring("one"); err != nil {
		t.Fatal(err)
	}
	if _, err := holder.granted(); err != nil {
		t.Fatal(err)
	}
	q, err := line(t.Context(), addr, "one", lineStep+3)
	if err != nil || len(q) != lineStep+3 {
		t.Fatalf("%d wait, %v", len(q), err)
	}
	q.close()
	err = await(t.Context(), startTime, func() (bool, error) {
		n, err := holder.waiting()
		return n == 0, err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOutOfOrder(t *testing.T) {
	grants := func(arrived ...int) (all []grant) {
		for made, a := range arrived {
			all = append(all, grant{a, leaseapi.Lease{Generation: uint64(made)}})
		}
		return all
	}
	for _, c := range []struct {
		arrived []int // in the order of their grants
		want    int
	}{
		{[]int{0, 1, 2}, 0},
		{[]int{1, 0, lineStep + 1, lineStep}, 0}, // waiters of one step may be granted in any order
		{[]int{lineStep, 0}, 1},
		{[]int{3 * lineStep, 0, lineStep, 4 * lineStep}, 2},
	} {
		if got := outOfOrder(grants(c.arrived...)); got != c.want {
			t.Errorf("%v: %d out of order, want %d", c.arrived, got, c.want)
		}
	}
}

// The start of a server that fails returns its error at once.
func TestStartFails(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{self: self, dir: t.TempDir()}
	begin := time.Now()
	_, err = w.start(t.Context(), self, "-test.run", "(")
	if err == nil || !strings.Contains(err.Error(), "it ended") || !strings.Contains(err.Error(), "regexp") {
		t.Errorf("start: %v", err)
	}
	if took := time.Since(begin); took >= startTime {
		t.Errorf("it took %v to see that the server had failed", took)
	}
}
