package config

import (
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"
)

// Certificate is the TLS certificate of a server. It may change while the server
// serves: connections that begin afterwards see the new one. The zero
// Certificate has none yet.
type Certificate struct {
	pair atomic.Pointer[tls.Certificate]
}

// set takes up a certificate and its key, in PEM, if they go together.
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

// TLS returns how to serve with it; nil if there is none yet.
func (c *Certificate) TLS() *tls.Config {
	if c.pair.Load() == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil },
	}
}
