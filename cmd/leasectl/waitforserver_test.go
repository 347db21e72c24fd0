package main

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/leaseapi"
)

// waitForServer has the conditions of waitFor on a server's settings:
//
//	waitfor capacity TYPE N     the pool has N leases; 0: there is no such pool
//	waitfor ready               /readyz says ok
//	waitfor degraded            /readyz says that something is wrong
//	waitfor denied FILE         the server refuses the token in the file
func waitForServer(ts *testscript.TestScript, args []string) (so func() bool) {
	switch {
	case len(args) == 3 && args[0] == "capacity":
		n, err := strconv.Atoi(args[2])
		ts.Check(err)
		return func() bool { return askPool(ts, args[1]).Capacity == n }
	case len(args) == 1 && args[0] == "ready":
		return func() bool { return strings.Contains(ask(ts, leaseapi.PathReady, ""), `"status":"ok"`) }
	case len(args) == 1 && args[0] == "degraded":
		return func() bool { return strings.Contains(ask(ts, leaseapi.PathReady, ""), `"status":"degraded"`) }
	case len(args) == 2 && args[0] == "denied":
		token := strings.TrimSpace(ts.ReadFile(args[1]))
		return func() bool { return strings.HasPrefix(ask(ts, leaseapi.PathPools, token), "401") }
	}
	return nil
}

// ask sends a GET to the scenario's proxy, and returns the status and body of the answer.
func ask(ts *testscript.TestScript, path, token string) string {
	client := http.Client{Transport: clitest.UnixTransport(ts.Getenv("SOCKET"))}
	req, err := http.NewRequest(http.MethodGet, "http://localhost"+path, nil)
	ts.Check(err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	var body strings.Builder
	if err := resp.Write(&body); err != nil && !errors.Is(err, net.ErrClosed) {
		ts.Check(err)
	}
	return strings.TrimPrefix(body.String(), "HTTP/1.1 ")
}
