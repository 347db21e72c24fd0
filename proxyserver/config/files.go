package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/auth"
)

// PoolsFrom returns the source for a file of pools: see [ParsePools]. warn is called for each
// warning, also if the file has errors. apply is called if the file has no errors.
func PoolsFrom(flag, file string, warn func(Warning), apply func([]pool.Config) error) *Source {
	return &Source{Name: flag, Files: []string{file}, Apply: func(texts [][]byte) error {
		pools, warnings, err := ParsePools(file, texts[0])
		for _, w := range warnings {
			warn(w)
		}
		if err != nil {
			return err
		}
		return apply(pools)
	}}
}

// TokensFrom returns the source for a file of tokens: see [ParseTokens]. warn is called if
// other users may read the file. apply is called if the file has no errors.
func TokensFrom(flag, file string, warn func(Warning), apply func([]auth.Token) error) *Source {
	return &Source{Name: flag, Files: []string{file}, Apply: func(texts [][]byte) error {
		warnOfReaders(file, warn)
		tokens, err := ParseTokens(file, texts[0])
		if err != nil {
			return err
		}
		return apply(tokens)
	}}
}

// AuthFrom returns the source for a file that says who may ask, and for the secrets that it names:
// see [ParseAuth]. warn is called if other users may read the secrets. apply is called if the file
// has no errors.
func AuthFrom(flag, file string, warn func(Warning), apply func(auth.Config) error) *Source {
	s := &Source{Name: flag, Files: []string{file}}
	s.more = func(text []byte) []string { return secretFiles(file, text) }
	s.Apply = func(texts [][]byte) error {
		secrets := make(map[string][]byte)
		for i, secret := range s.more(texts[0]) {
			warnOfReaders(secret, warn)
			secrets[secret] = texts[i+1]
		}
		c, err := ParseAuth(file, texts[0], secrets)
		if err != nil {
			return err
		}
		return apply(c)
	}
	return s
}

// warnOfReaders warns if other users may read a file of secrets.
func warnOfReaders(file string, warn func(Warning)) {
	if info, err := os.Stat(file); err == nil && othersRead(info) {
		warn(Warning{File: file, Text: fmt.Sprintf("its mode %#o lets others than its owner see the tokens: chmod 600", info.Mode().Perm())})
	}
}

// othersRead reports whether other users than that of this process may read a file. If another
// user owns the file, its group does not count: this process reads the file by its group, as
// with a Secret of Kubernetes.
func othersRead(info fs.FileInfo) bool {
	others := fs.FileMode(0o077)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		others = 0o007
	}
	return info.Mode().Perm()&others != 0
}

// CertificateFrom returns the source for a certificate and its key, in PEM, which it stores
// in to.
func CertificateFrom(flag, certFile, keyFile string, to *Certificate) *Source {
	return &Source{Name: flag, Files: []string{certFile, keyFile}, Apply: func(texts [][]byte) error {
		if err := to.set(texts[0], texts[1]); err != nil {
			return fmt.Errorf("certificate %s, key %s: %w", certFile, keyFile, err)
		}
		return nil
	}}
}

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
