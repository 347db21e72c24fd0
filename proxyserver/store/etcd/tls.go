package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"time"
)

// secure is how members are spoken to over TLS; nil: without. Its files are read with
// each connection, so that they may be replaced while the server runs.
type secure struct {
	ca          string // PEM file of the authorities that are trusted; empty: the system's
	certificate string // PEM files of the client's certificate and its key;
	key         string // empty: it has none
}

// newSecure makes sure that the files can be read.
func newSecure(ca, certificate, key string) (*secure, error) {
	s := &secure{ca: ca, certificate: certificate, key: key}
	_, err := s.config()
	return s, err
}

// config reads the files.
func (s *secure) config() (*tls.Config, error) {
	c := new(tls.Config)
	if s.ca != "" {
		pem, err := os.ReadFile(s.ca)
		if err != nil {
			return nil, fmt.Errorf("read the CA of etcd: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the CA of etcd: %s: no certificate in PEM form", s.ca)
		}
	}
	if s.certificate != "" {
		own, err := tls.LoadX509KeyPair(s.certificate, s.key)
		if err != nil {
			return nil, fmt.Errorf("read the certificate for etcd: %w", err)
		}
		// Whichever authorities the member names.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	}
	return c, nil
}

// dialTime bounds each half of a connection: the dial, and the TLS handshake.
const dialTime = 5 * time.Second

// dial connects to a member.
func (s *secure) dial(ctx context.Context, network, address string) (net.Conn, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*dialTime)
	defer cancel()
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTime}, Config: config}
	return d.DialContext(ctx, network, address)
}
