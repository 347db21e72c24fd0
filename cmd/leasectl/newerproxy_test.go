package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver"
	"github.com/leasectl/leasectl/internal/wiretest"
)

// newerProxy is a server of a later wire, with changes that docs/versions.md allows: it says wire
// 9, its answers have more fields, and some of its refusals have types that are unknown today. It
// serves N leases of one type on a socket until it is killed:
//
//	newerproxy SOCKET TYPE N
func newerProxy() {
	n, err := strconv.Atoi(os.Args[3])
	if err == nil {
		err = serveNewer(os.Args[1], pool.Config{Type: os.Args[2], Names: pool.Numbered(os.Args[2], n)})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func serveNewer(socket string, c pool.Config) error {
	server, err := proxyserver.New(proxyserver.Options{Pools: []pool.Config{c}})
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	return http.Serve(l, wire9{server})
}

// wire9 makes a server look like one of wire 9.
type wire9 struct{ server http.Handler }

func (h wire9) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	if wiretest.Asked(r).Type == "moon" {
		answer.Header().Set("Content-Type", "application/problem+json")
		answer.WriteHeader(http.StatusUnprocessableEntity)
		answer.WriteString(`{"type":"urn:leasectl:problem:eclipse","title":"eclipse","status":422,"detail":"the moon is not to be had today"}`)
	} else {
		h.server.ServeHTTP(answer, r)
	}
	maps.Copy(w.Header(), answer.Header())
	w.Header().Del("Content-Length") // it was that of the original answer
	body := answer.Body.Bytes()
	var object map[string]any
	if json.Unmarshal(body, &object) == nil {
		if _, has := object["wire"]; has {
			object["wire"] = 9
		}
		object["tides"] = map[string]any{"high": []int{6, 18}}
		if more, err := json.Marshal(object); err == nil {
			body = more
		}
	}
	w.WriteHeader(answer.Code)
	w.Write(body)
}
