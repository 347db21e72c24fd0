package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
)

// Clients trust the certificate of a server that is measured, for the address that it listens
// on.
func TestCertificate(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	if err := writeCertificate(cert, key); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"}); err != nil {
		t.Error(err)
	}
}

// A server's line says where it listens, with TLS and without.
func TestListeningLine(t *testing.T) {
	for line, want := range map[string]string{
		"leasectl: listening on http://127.0.0.1:4711\n":  "http://127.0.0.1:4711",
		"leasectl: listening on https://127.0.0.1:4711\n": "https://127.0.0.1:4711",
	} {
		if found := listening.FindStringSubmatch(line); found == nil || found[1]+found[2] != want {
			t.Errorf("%q: %q", line, found)
		}
	}
}
