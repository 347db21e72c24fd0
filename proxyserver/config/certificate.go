package config

import (
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"
)

// Certificate is the TLS certificate of a server. It may change while the server
// serves: connections that begin afterwards see the new one. It is safe for concurrent
// use. The zero Certificate has none yet.
type Certificate struct {
	pair atomic.Pointer[tls.Certificate]
}

// set stores a certificate and its key, in PEM, if they belong together.
func (c *Certificate) set(cert, key []byte) error {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	c.pair.Store(&pair)
	return nil
}

// Leaf returns the certificate itself; nil if there is none yet.
func (c *Certificate) Leaf() *x509.Certificate {
	if pair := c.pair.Load(); pair != nil {
		return pair.Leaf
	}
	return nil
}

// TLS returns the configuration of a server with this certificate; nil if there is none yet.
func (c *Certificate) TLS() *tls.Config {
	if c.pair.Load() == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil },
	}
}
