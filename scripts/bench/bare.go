package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/leasectl/leasectl/leaseapi"
)

// The bare peers show the cost of a lease proxy before it does anything for its users:
// net/http, and a channel that holds the free names. All but one also write each grant and each end
// into a ledger before they answer: over bbolt in one of the two ways that it offers, or in fenced
// transactions of a database. They keep no order, know no owners, and never free a leaked name.

// ledger makes the changes of a bare peer durable: a change is when its method has returned.
type ledger interface {
	put(name, text string) error
	remove(name string) error
}

// bareNamed makes the ledger of a bare peer, in a directory or at the URL of a database.
var bareNamed = map[string]func(at string) (ledger, error){
	"channels": func(string) (ledger, error) { return noLedger{}, nil },
	"update": func(dir string) (ledger, error) {
		db, err := openBare(dir)
		if err != nil {
			return nil, err
		}
		return boltLedger{db.Update}, nil
	},
	"batch": func(dir string) (ledger, error) {
		db, err := openBare(dir)
		if err != nil {
			return nil, err
		}
		db.MaxBatchDelay = time.Millisecond // the default of 10 ms is for many more clients than here
		return boltLedger{db.Batch}, nil
	},
	"etcd": func(url string) (ledger, error) {
		db, err := newBareEtcd(url)
		if err != nil {
			return nil, err
		}
		return newFencedTxns(db.commit), nil
	},
	"postgres": func(url string) (ledger, error) {
		db, err := newBarePostgres(context.Background(), url)
		if err != nil {
			return nil, err
		}
		return newFencedTxns(db.commit), nil
	},
}

// noLedger keeps nothing.
type noLedger struct{}

func (noLedger) put(string, string) error { return nil }
func (noLedger) remove(string) error      { return nil }

// boltLedger writes with a method of a [bolt.DB].
type boltLedger struct {
	write func(func(*bolt.Tx) error) error
}

func (b boltLedger) put(name, text string) error {
	return b.write(func(tx *bolt.Tx) error { return tx.Bucket(bareBucket).Put([]byte(name), []byte(text)) })
}

func (b boltLedger) remove(name string) error {
	return b.write(func(tx *bolt.Tx) error { return tx.Bucket(bareBucket).Delete([]byte(name)) })
}

func bareNames() []string {
	var names []string
	for name := range bareNamed {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var bareBucket = []byte("leases")

func openBare(dir string) (*bolt.DB, error) {
	db, err := bolt.Open(filepath.Join(dir, "db"), 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, err
	}
	return db, db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bareBucket)
		return err
	})
}

// bareServer has 64 names of type "many" and a single one of type "one".
type bareServer struct {
	ledger    ledger
	one, many chan string
	waiting   atomic.Int64
}

// serveBare serves until it is killed, and prints its address on stderr.
func serveBare(name, at string, stderr io.Writer) error {
	open, ok := bareNamed[name]
	if !ok {
		return fmt.Errorf("-bare %q: want one of %v", name, bareNames())
	}
	ledger, err := open(at)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "listening on http://%s\n", l.Addr())
	return http.Serve(l, newBare(ledger))
}

// newBare returns the handler of a bare peer.
func newBare(ledger ledger) http.Handler {
	s := &bareServer{ledger: ledger, one: make(chan string, 1), many: make(chan string, 64)}
	s.one <- "one-0"
	for i := range cap(s.many) {
		s.many <- "many-" + strconv.Itoa(i)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+leaseapi.PathAcquire, s.acquire)
	mux.HandleFunc("POST "+leaseapi.PathRelease, s.release)
	mux.HandleFunc("GET "+leaseapi.PathPools, s.pools)
	return mux
}

func (s *bareServer) free(typ string) chan string {
	if typ == "one" {
		return s.one
	}
	return s.many
}

func (s *bareServer) acquire(w http.ResponseWriter, r *http.Request) {
	free := s.free(r.URL.Query().Get(leaseapi.ParamType))
	var name string
	select {
	case name = <-free:
	default:
		s.waiting.Add(1)
		select {
		case name = <-free:
			s.waiting.Add(-1)
		case <-r.Context().Done():
			s.waiting.Add(-1)
			return
		}
	}
	if err := s.ledger.put(name, r.URL.RawQuery); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	reply(w, leaseapi.AcquireReply{Names: []string{name}})
}

func (s *bareServer) release(w http.ResponseWriter, r *http.Request) {
	var req leaseapi.ReleaseRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.Names) != 1 {
		http.Error(w, "want one name", http.StatusBadRequest)
		return
	}
	name := req.Names[0]
	if err := s.ledger.remove(name); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	free := s.many
	if name == "one-0" {
		free = s.one
	}
	free <- name
	w.WriteHeader(http.StatusNoContent)
}

func (s *bareServer) pools(w http.ResponseWriter, _ *http.Request) {
	reply(w, leaseapi.PoolsReply{Pools: []leaseapi.Pool{{Waiting: int(s.waiting.Load())}}})
}

func reply(w http.ResponseWriter, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
}
