package config

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writeCertificate writes a certificate that vouches for itself, and its key.
func writeCertificate(t *testing.T, cert, key string, serial int64) {
	t.Helper()
	// Not Ed25519, which TLS 1.1 does not know: it must fail for another reason.
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// After an exchange the next connection sees the new certificate. A pair that does not fit
// together changes nothing. Old versions of TLS fail.
func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	writeCertificate(t, cert, key, 1)
	var certificate Certificate
	if certificate.TLS() != nil {
		t.Error("TLS is served without a certificate")
	}
	source := CertificateFrom("tls-cert", cert, key, func(Warning) {}, &certificate)
	if err := Start(t.Context(), []*Source{source}, nil); err != nil {
		t.Fatal(err)
	}
	secure := certificate.TLS()
	serial := func(version uint16) (string, error) {
		server, client := net.Pipe()
		defer server.Close()
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		go tls.Server(server, secure).HandshakeContext(ctx)
		c := tls.Client(client, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if err := c.HandshakeContext(ctx); err != nil {
			return "", err
		}
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
	}
	first, err := serial(tls.VersionTLS12)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := serial(tls.VersionTLS11); err == nil {
		t.Errorf("TLS 1.1 is spoken, with %s", s)
	}
	writeCertificate(t, cert, filepath.Join(dir, "another"), 2)
	if _, err := source.look(true); err == nil {
		t.Error("a certificate with another's key is taken")
	}
	if s, err := serial(tls.VersionTLS13); err != nil || s != first {
		t.Errorf("certificate %s, %v, want %s still", s, err, first)
	}
	if err := os.Rename(filepath.Join(dir, "another"), key); err != nil {
		t.Fatal(err)
	}
	if looked, err := source.look(true); !looked || err != nil {
		t.Errorf("looked %v, %v", looked, err)
	}
	if s, err := serial(tls.VersionTLS13); err != nil || s == first {
		t.Errorf("certificate %s, %v, want another", s, err)
	}
}
