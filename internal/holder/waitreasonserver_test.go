package holder

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver"
	"github.com/leasectl/leasectl/leaseapi"
)

// server is a proxy server that is called without a connection.
type server struct {
	*proxyserver.Server
	ctx context.Context // of all calls
}

func (s server) call(method, path, body string, reply any) (status int) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(s.ctx, method, path, strings.NewReader(body)))
	json.Unmarshal(w.Body.Bytes(), reply)
	return w.Code
}

func (s server) acquire(id string, a leaseapi.Ask, wait time.Duration, reply any) (status int) {
	v := url.Values{
		leaseapi.ParamType: {"t"}, leaseapi.ParamWait: {wait.String()},
		leaseapi.ParamRequestID: {id}, leaseapi.ParamOwner: {id},
	}
	if a.Count > 0 {
		v.Set(leaseapi.ParamCount, strconv.Itoa(a.Count))
	}
	leaseapi.EncodeAsk(&a, v)
	return s.call("POST", leaseapi.PathAcquire+"?"+v.Encode(), "", reply)
}

func (s server) pool() leaseapi.Pool {
	var all leaseapi.PoolsReply
	s.call("GET", leaseapi.PathPools, "", &all)
	return all.Pools[0]
}

// queueOf finds the same reason as the server, as far as a client can know it: a client does
// not know where overcommit stands in a queue, nor whether the first waiter fits.
func TestQueueOfAServer(t *testing.T) {
	refused := 0
	for world := range 2 * 2 * 2 * 3 * 3 * 2 {
		pick := func(of int) int {
			n := world % of
			world /= of
			return n
		}
		paused, paced, waits := pick(2) == 1, pick(2) == 1, pick(2) == 1
		held := leaseapi.Ask{Count: 2 * pick(3), Key: []string{"", "k", "other"}[pick(3)]}
		if pick(2) == 1 && held.Key != "" {
			held.KeyMode = leaseapi.KeyRead
		}
		config := pool.Config{Type: "t", Units: 4, Overcommit: 2}
		if paced {
			config.Pace = time.Hour
		}
		srv, err := proxyserver.New(proxyserver.Options{Pools: []pool.Config{config}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		s := server{srv, ctx}
		if held.Count > 0 {
			s.acquire("held", held, 0, nil)
		}
		if paused {
			s.call("POST", leaseapi.PathPause, `{"type":"t","reason":"drill"}`, nil)
		}
		var waiter sync.WaitGroup
		if waits {
			waiter.Go(func() { s.acquire("first", leaseapi.Ask{Count: 1}, time.Hour, nil) })
			for p := s.pool(); p.Waiting == 0 && p.InUse == held.Count; p = s.pool() {
				time.Sleep(time.Millisecond)
			}
		}
		for i, r := range requests(!waits) {
			id, p := fmt.Sprint("new-", i), s.pool()
			var problem leaseapi.Problem
			if s.acquire(id, r, 0, &problem) == http.StatusOK {
				s.call("POST", leaseapi.PathRelease, `{"request_ids":["`+id+`"]}`, nil)
				continue
			}
			if refused++; problem.Queued == nil {
				t.Fatalf("%+v: %+v", r, problem)
			}
			if got, want := queueOf(p, r).Reason, problem.Queued.Reason; got != want {
				t.Errorf("paused %v, paced %v, somebody waits %v, %+v is held: %+v waits since %q, the server says %q", paused, paced, waits, held, r, got, want)
			}
		}
		cancel()
		waiter.Wait()
		srv.Close()
	}
	if refused < 500 {
		t.Errorf("%d requests were refused", refused)
	}
}

// requests returns requests for no count and for 1 to 4 units, with and without a key; and if
// overcommit is set, each also with overcommit.
func requests(overcommit bool) (all []leaseapi.Ask) {
	for count := range 5 {
		for _, key := range []string{"", "k"} {
			all = append(all, leaseapi.Ask{Count: count, Key: key})
			if key != "" {
				all = append(all, leaseapi.Ask{Count: count, Key: key, KeyMode: leaseapi.KeyRead})
			}
			if overcommit {
				all = append(all, leaseapi.Ask{Count: count, Key: key, Overcommit: true})
			}
		}
	}
	return all
}
