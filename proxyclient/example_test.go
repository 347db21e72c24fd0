package proxyclient_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/leasectl/leasectl/proxyclient"
)

func Example() {
	// A proxy of version 1, with one lease to give.
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/lease/acquire" {
			io.WriteString(w, `{"names":["us-east-1--quota-slice-0"]}`)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer proxy.Close()

	client, err := proxyclient.New(proxyclient.Options{URL: proxy.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx := context.Background()
	grant, err := client.Acquire(ctx, proxyclient.Request{Type: "aws-quota-slice", Count: 1, Owner: "job-1", Wait: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("got", grant.Leases[0].Name)

	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	reply, err := client.Release(ctx, proxyclient.Releasing(grant.Leases, "job-1"))
	fmt.Println("released", reply.Released, err)
	// Output:
	// got us-east-1--quota-slice-0
	// released [us-east-1--quota-slice-0] <nil>
}
