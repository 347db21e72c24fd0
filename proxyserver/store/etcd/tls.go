package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// secure is how members are spoken to over TLS; nil: without.
type secure struct {
	roots       *x509.CertPool // nil: the system's
	certificate string         // PEM files of the client's certificate and its key;
	key         string         // empty: it has none
}

// newSecure reads the files. Those of the certificate are read again with each
// connection, so that they may be renewed.
func newSecure(ca, certificate, key string) (*secure, error) {
	s := &secure{certificate: certificate, key: key}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("read the CA of etcd: %w", err)
		}
		s.roots = x509.NewCertPool()
		if !s.roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the CA of etcd: %s: no certificate in PEM form", ca)
		}
	}
	if s.certificate != "" {
		if _, err := s.load(nil); err != nil {
			return nil, fmt.Errorf("read the certificate for etcd: %w", err)
		}
	}
	return s, nil
}

func (s *secure) load(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(s.certificate, s.key)
	return &c, err
}

func (s *secure) config() *tls.Config {
	if s == nil {
		return nil
	}
	c := &tls.Config{RootCAs: s.roots}
	if s.certificate != "" {
		c.GetClientCertificate = s.load
	}
	return c
}
