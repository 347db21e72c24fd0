package etcd

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A member that hangs while it authenticates one request holds up other requests only until
// their own contexts end.
func TestHangingAuthentication(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/auth/authenticate"):
			close(asked) // twice would be a panic
			<-answer
			w.Write([]byte(`{"token":"new"}`))
		case r.Header.Get("Authorization") != "new":
			w.WriteHeader(http.StatusUnauthorized)
			w.Write([]byte(`{"code":16,"message":"invalid auth token"}`))
		default:
			w.Write([]byte(`{}`))
		}
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("leasectl:secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := newGateway(Address{Hosts: []string{strings.TrimPrefix(srv.URL, "http://")}}, nil, file, os.ReadFile)
	put := func(ctx context.Context) error { return g.call(ctx, "/v3/kv/put", struct{}{}, &struct{}{}) }
	first := make(chan error, 1)
	go func() { first <- put(t.Context()) }()
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	second := make(chan error, 1)
	go func() { second <- put(ctx) }()
	select {
	case err := <-second:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second request: %v", err)
		}
	case <-time.After(patience):
		t.Error("the second request waits for the first")
	}
	close(answer)
	if err := <-first; err != nil {
		t.Errorf("the first request: %v", err)
	}
	if err := put(t.Context()); err != nil {
		t.Errorf("with the new token: %v", err)
	}
}

// A request may be made again if the users of etcd change once more while its token is renewed.
func TestUsersChangeTwice(t *testing.T) {
	refusals := 2
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/auth/authenticate"):
			w.Write([]byte(`{"token":"new"}`))
		case refusals > 0:
			refusals--
			w.WriteHeader(http.StatusBadRequest)
			w.Write([]byte(`{"code":3,"message":"etcdserver: revision of auth store is old"}`))
		default:
			w.Write([]byte(`{}`))
		}
	}))
	defer srv.Close()
	readFile := func(string) ([]byte, error) { return []byte("leasectl:secret"), nil }
	g := newGateway(Address{Hosts: []string{strings.TrimPrefix(srv.URL, "http://")}}, nil, "credentials", readFile)
	for again := true; again; {
		err := g.call(t.Context(), "/v3/kv/put", struct{}{}, &struct{}{})
		if again = err != nil; refused(err) {
			t.Fatal(err)
		}
	}
	if refusals > 0 {
		t.Errorf("%d refusals are left", refusals)
	}
}
