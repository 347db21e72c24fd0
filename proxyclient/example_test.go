package proxyclient_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// startProxy starts a proxy with one lease to give.
func startProxy() (url string, stop func()) {
	server, err := proxyserver.New(proxyserver.Options{Pools: []pool.Config{{Type: "install", Names: []string{"install-0"}}}})
	if err != nil {
		panic(err)
	}
	proxy := httptest.NewServer(server)
	return proxy.URL, func() {
		proxy.CloseClientConnections() // those of requests that wait
		server.Close()
		proxy.Close()
	}
}

// A program holds a lease while it works. If the lease is lost, its work is told to stop.
func Example() {
	url, stop := startProxy()
	defer stop()

	client, err := proxyclient.New(proxyclient.Options{URL: url})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	request := proxyclient.Request{Ask: leaseapi.Ask{Type: "install", Count: 1}, Owner: "job-1"}
	err = client.Hold(context.Background(), request, func(ctx context.Context, g *proxyclient.Grant) error {
		fmt.Println("works with", g.Leases[0].Name)
		return ctx.Err()
	})
	fmt.Println("done:", err)
	// Output:
	// works with install-0
	// done: <nil>
}

// Servers that share their leases are one proxy: the client finds the one that answers.
func Example_servers() {
	down, stop := startProxy()
	stop()
	up, stop := startProxy()
	defer stop()

	client, err := proxyclient.New(proxyclient.Options{URL: down + "," + up})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	grant, err := client.Acquire(context.Background(), proxyclient.Request{Ask: leaseapi.Ask{Type: "install", Count: 1}, Owner: "job-1", Wait: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("got", grant.Leases[0].Name, "from one of", client.Servers())
	// Output: got install-0 from one of 2
}

// A request that waits says its place in the queue.
func ExampleClient_Acquire() {
	url, stop := startProxy()
	defer stop()
	client, err := proxyclient.New(proxyclient.Options{URL: url})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx := context.Background()
	first, err := client.Acquire(ctx, proxyclient.Request{Ask: leaseapi.Ask{Type: "install", Count: 1}, Owner: "job-1"})
	if err != nil {
		fmt.Println(err)
		return
	}

	var releases sync.WaitGroup
	release := sync.OnceFunc(func() {
		releases.Go(func() { client.Release(ctx, proxyclient.Releasing(first.Leases, "job-1")) })
	})
	second, err := client.Acquire(ctx, proxyclient.Request{
		Ask: leaseapi.Ask{Type: "install", Count: 1}, Owner: "job-2", Wait: time.Hour,
		OnQueued: func(q leaseapi.Queued) {
			fmt.Println("place", q.Place)
			release()
		},
	})
	releases.Wait()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("got", second.Leases[0].Name)
	// Output:
	// place 1
	// got install-0
}
