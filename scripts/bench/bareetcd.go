package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// fencedTxns shows the cost of a lease proxy on etcd before it does anything for its users:
// transactions that compare the leader's value and the revision of the last transaction. Each
// has all operations that came while the one before was under way. The callers are goroutines,
// or clients of [fencedTxns.serve].
type fencedTxns struct {
	url    string
	client http.Client

	mu       sync.Mutex
	open     *fencedBatch
	sem      chan struct{} // holds a value while a goroutine commits
	revision string        // of the key meta
}

// fencedBatch has the operations of one transaction.
type fencedBatch struct {
	ops  []string // JSON
	done chan struct{}
	err  error
}

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func newFencedTxns(url string) (*fencedTxns, error) {
	f := &fencedTxns{url: url, open: &fencedBatch{done: make(chan struct{})}, sem: make(chan struct{}, 1), revision: "0"}
	f.client.Transport = &http.Transport{MaxIdleConnsPerHost: 4}
	return f, f.post("/v3/kv/put", fmt.Sprintf(`{"key":%q,"value":%q}`, base64Of("bare/leader"), base64Of("nonce")), &struct{}{})
}

func (f *fencedTxns) post(path, body string, out any) error {
	resp, err := f.client.Post(f.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("etcd: %s: %s", resp.Status, bytes.TrimSpace(text))
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}

// do adds op to the next transaction, and blocks until op is durable.
func (f *fencedTxns) do(op string) error {
	f.mu.Lock()
	b := f.open
	b.ops = append(b.ops, op)
	f.mu.Unlock()
	select {
	case <-b.done:
		return b.err
	case f.sem <- struct{}{}:
	}
	defer func() { <-f.sem }()
	select {
	case <-b.done:
		return b.err
	default:
	}
	f.mu.Lock()
	f.open = &fencedBatch{done: make(chan struct{})}
	f.mu.Unlock()
	b.err = f.commit(b.ops)
	close(b.done)
	return b.err
}

func (f *fencedTxns) commit(ops []string) error {
	meta := base64Of("bare/meta")
	body := fmt.Sprintf(`{"compare":[{"key":%q,"target":"VALUE","value":%q},{"key":%q,"target":"MOD","mod_revision":%q}],"success":[%s,{"requestPut":{"key":%q,"value":%q}}]}`,
		base64Of("bare/leader"), base64Of("nonce"), meta, f.revision, strings.Join(ops, ","), meta, base64Of(`{"format":1,"clock":1,"generation":1}`))
	var reply struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
		Succeeded bool `json:"succeeded"`
	}
	if err := f.post("/v3/kv/txn", body, &reply); err != nil {
		return err
	}
	if !reply.Succeeded {
		return fmt.Errorf("etcd: the bare transaction was refused")
	}
	f.revision = reply.Header.Revision
	return nil
}

// pairs returns how many pairs a second the clients make: each puts and deletes a key of its
// own.
func (f *fencedTxns) pairs(clients int, window time.Duration) (float64, error) {
	return pairsPerSecond(clients, window, func(n int, repeat func(pair func() error) error) error {
		key, value := base64Of(fmt.Sprintf("bare/records/%016x", n)), base64Of(strings.Repeat("x", 120))
		put := fmt.Sprintf(`{"requestPut":{"key":%q,"value":%q}}`, key, value)
		remove := fmt.Sprintf(`{"requestDeleteRange":{"key":%q}}`, key)
		return repeat(func() error {
			if err := f.do(put); err != nil {
				return err
			}
			return f.do(remove)
		})
	})
}

// serve serves like the other bare peers: net/http, and a channel that holds the free names.
// Grants and ends are durable before they are answered.
func (f *fencedTxns) serve(names int) (addr string, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	free := make(chan string, names)
	for i := range names {
		free <- fmt.Sprintf("many-%d", i)
	}
	key := func(name string) string { return base64Of("bare/served/" + name) }
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+leaseapi.PathAcquire, func(w http.ResponseWriter, r *http.Request) {
		name := <-free
		if err := f.do(fmt.Sprintf(`{"requestPut":{"key":%q,"value":%q}}`, key(name), base64Of(strings.Repeat("x", 120)))); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		reply(w, leaseapi.AcquireReply{Names: []string{name}})
	})
	mux.HandleFunc("POST "+leaseapi.PathRelease, func(w http.ResponseWriter, r *http.Request) {
		var req leaseapi.ReleaseRequest
		err := json.NewDecoder(r.Body).Decode(&req)
		if err == nil {
			err = f.do(fmt.Sprintf(`{"requestDeleteRange":{"key":%q}}`, key(req.Names[0])))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		free <- req.Names[0]
		w.WriteHeader(http.StatusNoContent)
	})
	srv := &http.Server{Handler: mux}
	go srv.Serve(l)
	return l.Addr().String(), srv.Close, nil
}
