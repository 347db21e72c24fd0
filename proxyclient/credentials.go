package proxyclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

// credentials are the token that a client shows to its proxy, and the authorities that it
// trusts. A command may run for hours. Meanwhile a token or an authority may be replaced
// in its file, and the old one become invalid. So the client follows a file of a token, gets tokens
// that end anew, and reads the files again when the proxy refuses the token, or the proxy's
// certificate is not trusted.
type credentials struct {
	file   tokenFile
	from   *TokenSource // nil: the token is that of file
	caFile string

	mu        sync.Mutex // guards the rest once the client is in use
	ca        []byte     // content of caFile; nil: the system's authorities are trusted
	transport *http.Transport
}

// trust makes the authorities of a PEM file the only trusted ones.
func (c *credentials) trust(path string, read func(string) ([]byte, error)) error {
	text, roots, err := readRoots(path, read)
	if err != nil {
		return err
	}
	c.caFile, c.ca = path, text
	c.transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	return nil
}

// authorize puts the current token into a request. It blocks while there is none yet. An error
// means that none can be had.
func (c *credentials) authorize(req *http.Request) error {
	token := ""
	if c.from == nil {
		token = c.file.current()
	} else {
		var err error
		if token, err = c.from.Token(req.Context()); err != nil {
			return err
		}
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// tokenOrigin says where the token comes from, for messages; empty: not known.
func (c *credentials) tokenOrigin() string {
	if c.from != nil {
		return c.from.name
	}
	return c.file.path
}

// current returns the transport that trusts the current authorities.
func (c *credentials) current() *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transport
}

// reload gets the token or the authorities again if an attempt failed because of them. It
// reports whether they have been replaced, so that another attempt may succeed; an error says why
// no token can be had now. The failed attempt had no effect: the proxy refused it, or got no
// request. used is the transport of the attempt.
func (c *credentials) reload(ctx context.Context, o outcome, used *http.Transport) (replaced bool, err error) {
	if o.untrusted() {
		return c.reloadRoots(used), nil
	}
	if o.err != nil || o.StatusCode != http.StatusUnauthorized {
		return false, nil
	}
	sent := strings.TrimPrefix(o.Request.Header.Get("Authorization"), "Bearer ")
	if c.from != nil {
		return c.from.refuse(ctx, sent)
	}
	return c.file.refuse(sent), nil
}

// reloadRoots reads the authorities again. It reports whether used trusts others.
func (c *credentials) reloadRoots(used *http.Transport) bool {
	if c.caFile == "" {
		return false
	}
	text, roots, err := readRoots(c.caFile, func(path string) ([]byte, error) { return readAgain(path, MaxCA) }) // without mu: the file may hang
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transport != used {
		return true // another call has replaced it
	}
	if err != nil || bytes.Equal(text, c.ca) {
		return false
	}
	c.ca, c.transport = text, used.Clone()
	c.transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	used.CloseIdleConnections()
	return true
}

// readRoots reads a PEM file of authorities.
func readRoots(path string, read func(string) ([]byte, error)) (text []byte, roots *x509.CertPool, err error) {
	text, err = read(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read CA: %w", err)
	}
	roots = x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, nil, fmt.Errorf("read CA: %s: no certificate in PEM form: name the file with that of the authority", path)
	}
	return text, roots, nil
}

// readAgain reads a file that may have been replaced. It refuses a pipe, which was read
// to its end: a further read would block until somebody writes to the pipe.
func readAgain(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	return ReadFile(path, most)
}

// What is read of a file at most, in bytes: it may be a device or a pipe that never ends.
const (
	MaxToken = 64 << 10
	MaxCA    = 1 << 20
)

// ReadFile is [os.ReadFile] of a file with most bytes at most. One with more is an error.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes: name the file with the token, or with the authority's certificate", path, most)
	}
	return text, err
}
