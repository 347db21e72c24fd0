package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"
)

// secure connects to members over TLS; nil: without TLS. The files are read for each
// connection, so that they may be replaced while the server runs.
type secure struct {
	ca          string // PEM file of the authorities that are trusted; empty: the system's
	certificate string // PEM files of the client's certificate and its key;
	key         string // empty: the client has none
	readFile    func(file string) ([]byte, error)
}

// newSecure makes sure that the files can be read.
func newSecure(ca, certificate, key string, readFile func(string) ([]byte, error)) (*secure, error) {
	s := &secure{ca: ca, certificate: certificate, key: key, readFile: readFile}
	_, err := s.config()
	return s, err
}

// config reads the files.
func (s *secure) config() (*tls.Config, error) {
	c := new(tls.Config)
	if s.ca != "" {
		pem, err := s.readFile(s.ca)
		if err != nil {
			return nil, fmt.Errorf("read the CA of etcd: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the CA of etcd: %s: no certificate in PEM form", s.ca)
		}
	}
	if s.certificate != "" {
		own, err := s.pair()
		if err != nil {
			return nil, fmt.Errorf("read the certificate for etcd: %w", err)
		}
		// The certificate is sent whichever authorities the member names.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	}
	return c, nil
}

// pair reads the client's certificate.
func (s *secure) pair() (tls.Certificate, error) {
	cert, err := s.readFile(s.certificate)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := s.readFile(s.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// dialTime bounds the dial of a connection; [tls.Dialer] counts the handshake in.
const dialTime = 5 * time.Second

// dial connects to a member.
func (s *secure) dial(ctx context.Context, network, address string) (net.Conn, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTime}, Config: config}
	return d.DialContext(ctx, network, address)
}
