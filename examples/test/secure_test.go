package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Tokens of servers that ask for one.
const (
	adminToken = "admin-token-0123456789"
	readToken  = "read-token-0123456789"
	jobToken   = "job-token-0123456789"
)

// secrets are the paths of what a server with TLS and tokens needs.
type secrets struct{ ca, cert, key, tokens string }

// makeSecrets writes them to dir, under the names that the examples give them. The
// certificate is for all addresses of loopback that the tests use, and vouches for itself.
func makeSecrets(t *testing.T, dir string) secrets {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2), net.IPv4(127, 0, 0, 3)}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return secrets{
		ca:     write(t, filepath.Join(dir, "ca.crt"), certificate),
		cert:   write(t, filepath.Join(dir, "tls.crt"), certificate),
		key:    write(t, filepath.Join(dir, "tls.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))),
		tokens: writePrivate(t, filepath.Join(dir, "tokens"), fmt.Sprintf("oncall %s admin\nboard %s read\nci %s\n", adminToken, readToken, jobToken)),
	}
}

// httpClient trusts the authority.
func (f secrets) httpClient(t *testing.T) *http.Client {
	t.Helper()
	ca, err := os.ReadFile(f.ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
}

// secureServer starts one with TLS and tokens.
func secureServer(t *testing.T, args ...string) (*server, secrets) {
	t.Helper()
	files := makeSecrets(t, t.TempDir())
	s := &server{t: t, token: readToken, client: files.httpClient(t)}
	args = append([]string{"--listen", "127.0.0.1:0", "--tokens", files.tokens, "--tls-cert", files.cert, "--tls-key", files.key}, args...)
	s.start(serveCommand(args...))
	return s, files
}
