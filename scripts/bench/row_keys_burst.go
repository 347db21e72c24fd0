package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

const burstRequests = 1000

// burst is the result of a thousand requests for a key that came during a run of the key.
type burst struct {
	memory float64       // bytes of server memory for each request
	took   time.Duration // from the end of the first run to the last answer; runs of the burst end at once
	runs   int
	told   int // that ended with the exit code of another's run
}

// measureBurst measures the cost of requests that join a run, beside requests that only wait.
func measureBurst(ctx context.Context, w *world) ([]result, error) {
	joined, err := w.burst(ctx, leaseapi.Ask{Key: "k", Coalesce: leaseapi.CoalesceJoin, Variant: "v"})
	if err != nil {
		return nil, err
	}
	waiting, err := w.burst(ctx, leaseapi.Ask{})
	if err != nil {
		return nil, err
	}
	runs := result{What: fmt.Sprintf("runs for a burst of %d requests of a key that runs", burstRequests), Ours: one("leasectl", float64(joined.runs)), Limit: atMost(1)}
	told := result{What: "… that end with its exit code", Ours: one("leasectl", float64(joined.told)), Limit: atLeast(burstRequests - 1)}
	took := result{What: "… until all have", Unit: inSeconds, Ours: one("leasectl", joined.took.Seconds()), Peers: []measure{one("one after the other", waiting.took.Seconds())}}
	memory := result{What: "… server memory for each", Unit: inBytes, Ours: one("leasectl", joined.memory), Peers: []measure{one("one that waits", waiting.memory)}}
	return []result{runs, told, took, memory}, nil
}

// burst sends the requests while another request of the pool runs, then ends that run and waits
// for all answers.
func (w *world) burst(ctx context.Context, ask leaseapi.Ask) (b burst, err error) {
	s, err := w.serve(ctx, "--pool", "one=1")
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	holder, err := dial(s.addr)
	if err != nil {
		return b, err
	}
	defer holder.close()
	if err := holder.pair("one"); err != nil {
		return b, err
	}
	ask.Type = "one"
	first, err := holder.ask(ask, "first")
	if err == nil {
		err = json.Unmarshal(first.text, &first.granted)
	}
	if err != nil {
		return b, err
	}
	before, err := s.usage()
	if err != nil {
		return b, err
	}
	c := burstClients{answers: make(chan answered, burstRequests)}
	defer c.stop()
	if err := c.ask(s.addr, ask); err != nil {
		return b, err
	}
	err = await(ctx, startTime, func() (bool, error) {
		time.Sleep(20 * time.Millisecond)
		p, err := holder.pool()
		return p.Waiting+p.Following == burstRequests, err
	})
	if err != nil {
		return b, err
	}
	full, err := s.usage()
	if err != nil {
		return b, err
	}
	b.memory = (full.memory - before.memory) / burstRequests
	begin := time.Now()
	if err := holder.finish(first.granted.Leases[0], 0); err != nil {
		return b, err
	}
	c.running.Wait()
	b.took = time.Since(begin)
	for range burstRequests {
		a := <-c.answers
		switch {
		case a.err != nil:
			err = errors.Join(err, a.err)
		case a.status == http.StatusOK:
			b.runs++
		case strings.Contains(string(a.text), `"exit_code":7`):
			b.told++
		}
	}
	return b, err
}

// burstClients make one request each. A client that gets a lease ends its run at once.
type burstClients struct {
	connections queue
	running     sync.WaitGroup
	answers     chan answered
}

// ask makes the requests; the answers come later.
func (c *burstClients) ask(addr string, ask leaseapi.Ask) error {
	for i := range burstRequests {
		client, err := dial(addr)
		if err != nil {
			return err
		}
		c.connections = append(c.connections, client)
		c.running.Go(func() {
			a, err := client.ask(ask, fmt.Sprint("r", i))
			a.err = err
			if err == nil && a.status == http.StatusOK {
				if a.err = json.Unmarshal(a.text, &a.granted); a.err == nil {
					a.err = client.finish(a.granted.Leases[0], 7)
				}
			}
			c.answers <- a
		})
	}
	return nil
}

// stop ends the requests that have no answer yet.
func (c *burstClients) stop() {
	c.connections.close()
	c.running.Wait()
}

// answered is the answer to a request with an id.
type answered struct {
	status  int
	text    []byte
	granted leaseapi.AcquireReply
	err     error
}

// ask sends a request until it is granted or has ended.
func (w *wire) ask(ask leaseapi.Ask, id string) (a answered, err error) {
	wait := leaseapi.Duration(time.Hour)
	for {
		if err := w.asking(leaseapi.AcquireRequest{Ask: ask, RequestID: id, Wait: &wait}); err != nil {
			return a, err
		}
		if a.status, a.text, err = w.anyAnswer(); err != nil || a.status != http.StatusAccepted {
			return a, err
		}
	}
}

// finish releases the lease of a run that ended by itself with code.
func (w *wire) finish(l leaseapi.Lease, code int) error {
	body, err := json.Marshal(leaseapi.ReleaseRequest{Leases: []leaseapi.Lease{{Name: l.Name, Generation: l.Generation}}, ExitCode: &code})
	if err != nil {
		return err
	}
	_, err = w.call(http.MethodPost, leaseapi.PathRelease, string(body))
	return err
}
