package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// versionOneProxy is a lease proxy as deployed today. It knows names, but no request ids, owners,
// TTLs or later paths. It serves N leases of one type on a socket until it is killed:
//
//	v1proxy SOCKET TYPE N [POOL]
//
// The names are TYPE-0 and so on; \n in a type is a line break in the names.
//
// Without POOL the pool is a part of the proxy. Else POOL is a directory with a file for each name
// that is held, and outlives the proxy like a real pool. While a file POOL.503 exists, the pool
// fails every release. While POOL.slow exists, the pool makes a file POOL.asked instead of
// answering releases. The proxy forgets a name before it asks the pool.
func versionOneProxy() {
	n, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	p := &v1Proxy{typ: os.Args[2], freed: sync.NewCond(new(sync.Mutex))}
	for i := range n {
		p.free = append(p.free, fmt.Sprintf("%s-%d", strings.ReplaceAll(p.typ, `\n`, "\n"), i))
	}
	if len(os.Args) > 4 {
		p.pool = os.Args[4]
		p.free = slices.DeleteFunc(p.free, func(name string) bool { return clitest.Exists(filepath.Join(p.pool, name)) })
	}
	os.Remove(os.Args[1]) // the socket of a killed proxy
	l, err := net.Listen("unix", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /lease/acquire", p.acquire)
	mux.HandleFunc("POST /lease/release", p.release)
	fmt.Fprintln(os.Stderr, http.Serve(l, mux))
	os.Exit(1)
}

type v1Proxy struct {
	typ   string
	pool  string     // directory of the pool; "" if the pool is a part of the proxy
	freed *sync.Cond // its lock guards the fields below
	free  []string
	held  []string
}

func (p *v1Proxy) acquire(w http.ResponseWriter, r *http.Request) {
	typ := r.URL.Query().Get("type")
	if typ != p.typ {
		http.Error(w, fmt.Sprintf("Failed to acquire lease %q: resource type not found", typ), http.StatusNotFound)
		return
	}
	p.freed.L.Lock()
	defer p.freed.L.Unlock()
	defer context.AfterFunc(r.Context(), p.freed.Broadcast)()
	for len(p.free) == 0 && r.Context().Err() == nil {
		p.freed.Wait()
	}
	if r.Context().Err() != nil {
		return
	}
	name := p.free[0]
	p.free, p.held = p.free[1:], append(p.held, name)
	if p.pool != "" {
		os.WriteFile(filepath.Join(p.pool, name), nil, 0o600)
	}
	fmt.Fprintln(os.Stderr, "granted", name)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"names":[%q]}`, name)
}

func (p *v1Proxy) release(w http.ResponseWriter, r *http.Request) {
	var body struct{ Names []string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.freed.L.Lock()
	defer p.freed.L.Unlock()
	for i, name := range body.Names {
		at := slices.Index(p.held, name)
		if at < 0 {
			http.Error(w, fmt.Sprintf("Failed to release lease %s: no resource name %s. Released: %s", name, name, strings.Join(body.Names[:i], " ")), http.StatusInternalServerError)
			return
		}
		p.held = slices.Delete(p.held, at, at+1)
		for p.pool != "" && clitest.Exists(p.pool+".slow") {
			os.WriteFile(p.pool+".asked", nil, 0o600)
			time.Sleep(time.Millisecond)
		}
		if p.pool != "" && clitest.Exists(p.pool+".503") {
			http.Error(w, fmt.Sprintf("Failed to release lease %s: status 503 Service Unavailable. Released: %s", name, strings.Join(body.Names[:i], " ")), http.StatusInternalServerError)
			return
		}
		if p.pool != "" {
			os.Remove(filepath.Join(p.pool, name))
		}
		p.free = append(p.free, name)
		fmt.Fprintln(os.Stderr, "released", name)
		p.freed.Broadcast()
	}
	w.WriteHeader(http.StatusNoContent)
}
