package local

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/holder/socket"
	"github.com/leasectl/leasectl/leaseapi"
)

// A running proxy is used if it has the pools that are asked for. Otherwise the error names the
// difference, and no second proxy is started.
func TestEnsureOfARunningProxy(t *testing.T) {
	p := Proxy{Dir: t.TempDir(), Debugf: t.Logf}
	serve(t, p.Socket(), leaseapi.Pool{Type: "install", Capacity: 2})
	for _, tt := range []struct {
		pools []Pool
		want  string
	}{
		{nil, ""},
		{[]Pool{{"install", 2}}, ""},
		{[]Pool{{"install", 3}}, "--pool install=3: the local proxy that runs on " + p.Socket() + " has install=2"},
		{[]Pool{{"install", 2}, {"quota", 1}}, "--pool quota=1: the local proxy that runs on " + p.Socket() + " has no such pool"},
	} {
		p.Pools = tt.pools
		err := p.Ensure(t.Context())
		if _, wrong := errors.AsType[PoolsError](err); wrong != (tt.want != "") || wrong && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.pools, err, tt.want)
		}
	}
}

// No proxy is started until somebody has said with which pools.
func TestEnsureWithoutPools(t *testing.T) {
	p := Proxy{Dir: t.TempDir(), Debugf: t.Logf}
	err := p.Ensure(t.Context())
	if _, wrong := errors.AsType[PoolsError](err); !wrong {
		t.Errorf("%v, want a PoolsError", err)
	}
}

// A proxy that ends is hidden before it stops, so that the next command starts a new one. If it
// goes on after all, commands find it again. Another proxy in its place is left alone.
func TestEnd(t *testing.T) {
	p := Proxy{Dir: t.TempDir()}
	serve(t, p.Socket())
	end := NewEnd(p.Dir)
	if err := end.Listening(); err != nil {
		t.Fatal(err)
	}
	accepts := func() bool {
		live, err := socket.Accepts(p.Socket())
		return live && err == nil
	}
	unhide, err := end.Hide()
	if err != nil || accepts() {
		t.Fatalf("hidden, it accepts connections: %v, %v", accepts(), err)
	}
	if unhide(); !accepts() {
		t.Error("it goes on, and nobody finds it")
	}
	if _, err := end.Hide(); err != nil {
		t.Fatal(err)
	}
	serve(t, p.Socket())
	if end.Close(); !accepts() {
		t.Error("the end of a proxy took the socket of the next one")
	}
	if _, err := end.Hide(); err != nil || !accepts() {
		t.Errorf("a proxy hid the next one: %v", err)
	}
	end.Close()
}

// serve runs a lease proxy on a socket, which says that it has these pools.
func serve(t *testing.T, path string, pools ...leaseapi.Pool) {
	l, done, err := socket.Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for path, answer := range map[string]any{
		leaseapi.PathHealth: leaseapi.Health{Wire: leaseapi.Wire},
		leaseapi.PathPools:  leaseapi.PoolsReply{Pools: pools},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(answer)
		})
	}
	server := &http.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		done()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
}
