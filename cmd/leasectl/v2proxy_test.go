package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver"
)

// versionTwoProxy is our server with wire 2: it ignores the features of wire 3. It serves N leases
// of one type on a socket until it is killed, and writes each request to stdout:
//
//	v2proxy SOCKET TYPE N
func versionTwoProxy() {
	server, err := poolsOf(os.Args[2], os.Args[3])
	if err == nil {
		err = serveOn(os.Args[1], wire2{server})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// poolsOf returns a server with count leases of one type.
func poolsOf(typ, count string) (http.Handler, error) {
	n, err := strconv.Atoi(count)
	if err != nil {
		return nil, err
	}
	return proxyserver.New(proxyserver.Options{Pools: []pool.Config{{Type: typ, Names: pool.Numbered(typ, n)}}})
}

func serveOn(socket string, h http.Handler) error {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	return http.Serve(l, h)
}

// wire2 makes a server look and act like a server of wire 2.
type wire2 struct{ server http.Handler }

func (h wire2) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Printf("%s %s %s\n", r.Method, r.URL, body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	query := r.URL.Query()
	for _, name := range []string{leaseapi.ParamWire, leaseapi.ParamKey, leaseapi.ParamItems, leaseapi.ParamOvercommit} {
		query.Del(name)
	}
	r.URL.RawQuery = query.Encode()
	r.Header.Del(leaseapi.HeaderCall)
	switch r.URL.Path {
	case leaseapi.PathResize:
		r.URL = &url.URL{Path: "/nothing"}
	case leaseapi.PathHealth:
		answer := httptest.NewRecorder()
		h.server.ServeHTTP(answer, r)
		var health leaseapi.Health
		if err := json.Unmarshal(answer.Body.Bytes(), &health); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		health.Wire = 2
		json.NewEncoder(w).Encode(health)
		return
	}
	h.server.ServeHTTP(w, r)
}
