package starter

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	// authorityFor is how long clients trust the authority. To replace it means to give every job
	// another file.
	authorityFor = 10 * 365 * 24 * time.Hour
	// certificateFor is how long the certificate is valid: browsers of Apple refuse more.
	certificateFor = 825 * 24 * time.Hour
	// skew is by how much a client's clock may be behind.
	skew = time.Hour
)

// certificate makes a certificate for hosts, and the authority that signs it, unless they are there.
// It returns the first name that clients may use.
func (w *writer) certificate(hosts []string) (host string, err error) {
	if there, err := w.hasPair(Certificate, Key); err != nil {
		return "", err
	} else if there {
		return w.checkHosts(hosts)
	}
	if there, err := w.hasPair(Authority, AuthorityKey); err != nil {
		return "", err
	} else if !there {
		if err := w.authority(); err != nil {
			return "", err
		}
	}
	signer, err := w.load(Authority, AuthorityKey)
	if err != nil {
		return "", err
	}
	if !signer.Leaf.IsCA {
		return "", fmt.Errorf("%s is not the certificate of an authority", w.path(Authority))
	}
	if len(hosts) == 0 {
		if host, err = os.Hostname(); err != nil {
			return "", err
		}
		hosts = []string{host}
	}
	template := newTemplate("leasectl", certificateFor)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	// Whoever looks after the server reaches it from its own machine, too.
	for _, host := range append(hosts[:len(hosts):len(hosts)], "localhost", "127.0.0.1", "::1") {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, strings.ToLower(host))
		}
	}
	if template.NotAfter.After(signer.Leaf.NotAfter) {
		template.NotAfter = signer.Leaf.NotAfter
	}
	return hosts[0], w.sign(Certificate, Key, template, signer.Leaf, signer.PrivateKey)
}

// checkHosts returns the first name of the certificate that is there, which must be for hosts.
func (w *writer) checkHosts(hosts []string) (host string, err error) {
	pair, err := w.load(Certificate, Key)
	if err != nil {
		return "", err
	}
	for _, host := range hosts {
		if pair.Leaf.VerifyHostname(host) != nil {
			return "", fmt.Errorf("%s is not for %s: remove it and %s to have another made", w.path(Certificate), host, Key)
		}
	}
	hosts = slices.Concat(hosts, pair.Leaf.DNSNames)
	for _, ip := range pair.Leaf.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	wildcard := func(host string) bool { return strings.Contains(host, "*") }
	named := slices.DeleteFunc(slices.Clone(hosts), wildcard)
	switch {
	case len(named) > 0:
		return named[0], nil
	case len(hosts) > 0:
		return "", fmt.Errorf("%s is for %s: name the server with --host", w.path(Certificate), hosts[0])
	}
	return "", fmt.Errorf("%s names no host", w.path(Certificate))
}

func (w *writer) load(certificate, key string) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(w.path(certificate), w.path(key))
	if err != nil {
		err = fmt.Errorf("%s: %w", w.path(certificate), err)
	}
	return pair, err
}

// authority makes an authority that signs itself, and only certificates of servers.
func (w *writer) authority() error {
	template := newTemplate("leasectl authority", authorityFor)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign
	return w.sign(Authority, AuthorityKey, template, template, nil)
}

func newTemplate(name string, lasts time.Duration) *x509.Certificate {
	now := time.Now()
	// CreateCertificate chooses the serial number.
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-skew), NotAfter: now.Add(lasts)}
}

// sign writes a certificate, and its key before it unless that is there. Without a signer's key it
// signs itself.
func (w *writer) sign(certificate, key string, template, signer *x509.Certificate, signerKey crypto.PrivateKey) error {
	own, err := w.key(key)
	if err != nil {
		return err
	}
	if signerKey == nil {
		signerKey = own
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, own.Public(), signerKey)
	if err != nil {
		return err
	}
	return w.file(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// key returns the key in a file, which it makes if it is missing.
func (w *writer) key(name string) (crypto.Signer, error) {
	text, err := os.ReadFile(w.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return w.newKey(name)
	} else if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(text); block != nil {
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if signer, ok := key.(crypto.Signer); ok {
				return signer, nil
			}
		}
	}
	return nil, fmt.Errorf("%s is no key in PKCS #8 that a certificate could be made for: put its certificate there too, or remove it to have both made", w.path(name))
}

func (w *writer) newKey(name string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, w.file(name, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}
