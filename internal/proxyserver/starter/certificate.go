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
	"unicode"
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
		if err := checkHost(host); err != nil {
			return "", fmt.Errorf("this machine's name: %w", err)
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

// checkHost refuses what is neither an IP address nor a name that clients can look up (RFC 1123,
// section 2.1), for which no certificate counts.
func checkHost(host string) error {
	if net.ParseIP(host) != nil {
		return nil
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) {
		return fmt.Errorf("host %q has other letters than those of ASCII: write it as xn--…, as in its DNS", host)
	}
	parts := strings.Split(host, ".")
	if len(host) > 253 || slices.ContainsFunc(parts, func(part string) bool { return !isHostPart(part) }) {
		return fmt.Errorf("host %.100q is no name of a host: want letters, digits and hyphens, in parts of 1 to 63 with dots between them", host)
	}
	return nil
}

// isHostPart reports whether a text may stand between the dots of a host's name. Clients also take _.
func isHostPart(part string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	return len(part) > 0 && len(part) <= 63 && strings.Trim(part, letters) == "" && part[0] != '-' && part[len(part)-1] != '-'
}

// ownAuthority reports whether clients that trust the authority accept the certificate, in its time.
func (w *writer) ownAuthority() bool {
	text, err := w.read(Authority)
	if err != nil {
		return false
	}
	pair, err := w.load(Certificate, Key)
	if err != nil {
		return false
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: pair.Leaf.NotAfter})
	return err == nil
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
	text, err := w.read(certificate)
	if err != nil {
		return tls.Certificate{}, err
	}
	secret, err := w.read(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(text, secret)
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

// mostBytes is far more than a key or a certificate has.
const mostBytes = 1 << 20

// read returns the content of a file. Nothing else is read: a pipe would be waited for.
func (w *writer) read(name string) ([]byte, error) {
	info, err := os.Stat(w.path(name))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > mostBytes {
		return nil, fmt.Errorf("%s is no file of a key or a certificate: remove it, or use another directory", w.path(name))
	}
	return os.ReadFile(w.path(name))
}

// key returns the key in a file, which it makes if it is missing.
func (w *writer) key(name string) (crypto.Signer, error) {
	text, err := w.read(name)
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
