package proxyclient

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// A token that was replaced in its file is read before the next request, so that not even one is
// refused. Before, a command that had started with the old token lost its lease.
func TestReplacedToken(t *testing.T) {
	var wanted atomic.Pointer[string]
	var refused atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+*wanted.Load() {
			refused.Add(1)
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		grant(w, r)
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "token")
	rotate := func(token string) {
		wanted.Store(&token)
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate("the-first-token")
	c, err := New(Options{URL: srv.URL, Token: "the-first-token", TokenFile: file})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	acquireA(t, c)
	rotate("the-second-token")
	acquireA(t, c)
	acquireA(t, c)
	if n := refused.Load(); n != 0 {
		t.Errorf("%d requests were refused", n)
	}

	// A refused token is not sent again and again.
	never := "no-file-has-it"
	wanted.Store(&never)
	for _, text := range []string{"the-second-token", "", "two tokens\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Renew(t.Context(), []leaseapi.Lease{{Name: "a", Generation: 1}}, 0); err == nil || !strings.Contains(err.Error(), "refused the token") {
			t.Errorf("with %q in the file: %v", text, err)
		}
	}
}

// The client makes pauses even if the token file has another token after each refusal, as
// from an agent that renews a token that the proxy does not accept.
func TestTokenThatIsReplacedAgainAndAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	refused := 0
	c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refused++
		if err := os.WriteFile(file, fmt.Appendf(nil, "token-%d", refused), 0o600); err != nil {
			t.Error(err)
		}
		http.Error(w, "no", http.StatusUnauthorized)
	}))
	c.file.opened(file, "token-0")
	ctx, cancel := context.WithTimeout(t.Context(), 3*minPause)
	defer cancel()
	if _, err := c.Renew(ctx, []leaseapi.Lease{{Name: "a", Generation: 1}}, 0); err == nil {
		t.Error("renewed")
	}
	if refused > 5 {
		t.Errorf("asked %d times within three pauses", refused)
	}
}

// A replaced file of authorities is read when the proxy's certificate is of an unknown
// authority, even if several calls find that at the same time.
func TestReplacedAuthority(t *testing.T) {
	var certificate atomic.Pointer[tls.Certificate]
	srv := httptest.NewUnstartedServer(http.HandlerFunc(grant))
	srv.Config.ErrorLog = discard
	srv.Config.SetKeepAlivesEnabled(false) // an open connection would keep the old certificate
	srv.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*certificate.Load()}}, nil
	}}
	file := filepath.Join(t.TempDir(), "ca.pem")
	rotate := func() {
		c := selfSigned(t)
		certificate.Store(c)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate()
	srv.StartTLS()
	defer srv.Close()
	c, err := New(Options{URL: srv.URL, CAFile: file})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	acquireA(t, c)
	rotate()
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() { acquireA(t, c) })
	}
	calls.Wait()

	certificate.Store(selfSigned(t))
	if c, err = New(Options{URL: srv.URL, CAFile: file}); err != nil { // the first may have a connection
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an authority that the file does not have: %v", err)
	}
}

// selfSigned makes a certificate for the loopback address.
func selfSigned(t *testing.T) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: rand.Text()}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
