package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// versionOneProxy is a lease proxy as it is deployed: it knows names, and
// nothing of request ids, owners, TTLs or any path of ours. It serves N leases
// of one type on a socket until it is killed:
//
//	v1proxy SOCKET TYPE N
//
// The names are TYPE-0 and so on; \n in a type is a line break in the names.
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
	freed *sync.Cond // its lock guards what follows
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
	for len(p.free) == 0 {
		p.freed.Wait()
	}
	name := p.free[0]
	p.free, p.held = p.free[1:], append(p.held, name)
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
			http.Error(w, fmt.Sprintf("Failed to release lease %s: no resource name %s. Released: %s", name, name, body.Names[:i]), http.StatusInternalServerError)
			return
		}
		p.held = slices.Delete(p.held, at, at+1)
		p.free = append(p.free, name)
		fmt.Fprintln(os.Stderr, "released", name)
		p.freed.Broadcast()
	}
	w.WriteHeader(http.StatusNoContent)
}
