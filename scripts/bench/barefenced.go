package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// fencedTxns shows the cost of a lease proxy on a database before it does anything for its users:
// transactions that compare the leader's nonce and the version that the last transaction left. Each
// has all operations that came while the one before was under way. It is the ledger of a bare peer, or
// has callers of its own: see pairs.
type fencedTxns struct {
	commit func(ops []fencedOp) error

	mu   sync.Mutex
	open *fencedBatch
	sem  chan struct{} // holds a value while a goroutine commits
}

// fencedOp puts fencedValue under a key, or deletes the key.
type fencedOp struct {
	key    string
	remove bool
}

var fencedValue = strings.Repeat("x", 120)

// fencedBatch has the operations of one transaction.
type fencedBatch struct {
	ops  []fencedOp
	done chan struct{}
	err  error
}

func newFencedTxns(commit func(ops []fencedOp) error) *fencedTxns {
	return &fencedTxns{commit: commit, open: &fencedBatch{done: make(chan struct{})}, sem: make(chan struct{}, 1)}
}

// bareEtcd commits to etcd.
type bareEtcd struct {
	url      string
	client   http.Client
	revision string // of the key meta
}

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func newBareEtcd(url string) (*bareEtcd, error) {
	f := &bareEtcd{url: url, revision: "0"}
	f.client.Transport = &http.Transport{MaxIdleConnsPerHost: 4}
	return f, f.post("/v3/kv/put", fmt.Sprintf(`{"key":%q,"value":%q}`, base64Of("bare/leader"), base64Of("nonce")), &struct{}{})
}

func (f *bareEtcd) post(path, body string, out any) error {
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

// put implements [ledger]. Its values are about as long as the records of a lease.
func (f *fencedTxns) put(name, _ string) error { return f.do(fencedOp{key: name}) }

// remove implements [ledger].
func (f *fencedTxns) remove(name string) error { return f.do(fencedOp{key: name, remove: true}) }

// do adds op to the next transaction, and blocks until op is durable.
func (f *fencedTxns) do(op fencedOp) error {
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

func (f *bareEtcd) commit(ops []fencedOp) error {
	var operations []string
	for _, op := range ops {
		if key := base64Of("bare/records/" + op.key); op.remove {
			operations = append(operations, fmt.Sprintf(`{"requestDeleteRange":{"key":%q}}`, key))
		} else {
			operations = append(operations, fmt.Sprintf(`{"requestPut":{"key":%q,"value":%q}}`, key, base64Of(fencedValue)))
		}
	}
	meta := base64Of("bare/meta")
	body := fmt.Sprintf(`{"compare":[{"key":%q,"target":"VALUE","value":%q},{"key":%q,"target":"MOD","mod_revision":%q}],"success":[%s,{"requestPut":{"key":%q,"value":%q}}]}`,
		base64Of("bare/leader"), base64Of("nonce"), meta, f.revision, strings.Join(operations, ","), meta, base64Of(`{"format":1,"clock":1,"generation":1}`))
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
		key := fmt.Sprintf("%016x", n)
		return repeat(func() error {
			if err := f.put(key, ""); err != nil {
				return err
			}
			return f.remove(key)
		})
	})
}
