package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// makeCertificate writes a certificate for 127.0.0.1 that vouches for itself,
// and its key:
//
//	makecert CERT KEY
func makeCertificate() {
	if err := writeCertificate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func writeCertificate(cert, key string) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

// A certificate that was exchanged is the one that the next connection sees; a
// pair that does not fit together changes nothing; old versions of TLS fail.
func TestSecure(t *testing.T) {
	dir := t.TempDir()
	o := &serveOptions{tlsCert: filepath.Join(dir, "cert"), tlsKey: filepath.Join(dir, "key")}
	set := &settings{app: &app{proxy: proxyOptions{pools: poolFlags{{"t", 1}}}}}
	if err := writeCertificate(o.tlsCert, o.tlsKey); err != nil {
		t.Fatal(err)
	}
	if err := set.read(o); err != nil {
		t.Fatal(err)
	}
	secure := set.secure()
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
	if err := writeCertificate(o.tlsCert, filepath.Join(dir, "another")); err != nil {
		t.Fatal(err)
	}
	if _, err := set.sources[0].look(true); err == nil {
		t.Error("a certificate with another's key is taken")
	}
	if s, err := serial(tls.VersionTLS13); err != nil || s != first {
		t.Errorf("certificate %s, %v, want %s still", s, err, first)
	}
	if err := os.Rename(filepath.Join(dir, "another"), o.tlsKey); err != nil {
		t.Fatal(err)
	}
	if looked, err := set.sources[0].look(true); !looked || err != nil {
		t.Errorf("looked %v, %v", looked, err)
	}
	if s, err := serial(tls.VersionTLS13); err != nil || s == first {
		t.Errorf("certificate %s, %v, want another", s, err)
	}
}

// A file is taken up when it has changed and stayed so for two looks, once, and
// then not again until it changes; at once if that is asked for.
func TestLook(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var taken []string
	bad := errors.New("bad")
	s := &source{files: []string{file}, take: func(texts [][]byte) error {
		taken = append(taken, string(texts[0]))
		if string(texts[0]) == "bad" {
			return bad
		}
		return nil
	}}
	look := func(must, want bool, wantErr error, now ...string) {
		t.Helper()
		taken = nil
		looked, err := s.look(must)
		if looked != want || !errors.Is(err, wantErr) || fmt.Sprint(taken) != fmt.Sprint(now) {
			t.Errorf("looked %v, %v, took %v, want %v, %v, %v", looked, err, taken, want, wantErr, now)
		}
	}
	write("one")
	if err := s.start(); err != nil || len(taken) != 1 {
		t.Fatal(err, taken)
	}
	look(false, false, nil)
	write("tw") // it is being written
	look(false, false, nil)
	write("two")
	look(false, false, nil)
	look(false, true, nil, "two")
	look(false, false, nil)
	look(true, true, nil, "two")
	write("bad")
	look(true, true, bad, "bad")
	look(false, false, nil) // it has been said
	write("two")
	look(false, false, nil)
	look(false, true, nil, "two")
	os.Remove(file)
	look(false, false, nil)
	look(false, true, os.ErrNotExist)
	look(false, false, nil)
}
