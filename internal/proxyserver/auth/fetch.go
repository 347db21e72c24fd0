package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	// fetchTime bounds a fetch of keys, which is two calls.
	fetchTime = 10 * time.Second
	// mostAnswer bounds an answer of an issuer, in bytes.
	mostAnswer = 256 << 10
)

// fetchKeys asks an issuer where its keys are, and for the keys. The files of the issuer are read
// each time: they may have been replaced. through replaces the network unless it is nil.
func (i Issuer) fetchKeys(ctx context.Context, through http.RoundTripper) ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	client, err := i.client(through)
	if err != nil {
		return nil, err
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), i.URL)
	if err != nil {
		return nil, withoutMethod(err)
	}
	var metadata struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&metadata); err != nil {
		return nil, err
	}
	place, _, _ := strings.Cut(metadata.Keys, "?") // unlike an issuer, it may have a query
	if err := CheckIssuer(place); err != nil {
		return nil, fmt.Errorf("its jwks_uri %q: %w", metadata.Keys, err)
	}
	if strings.HasPrefix(i.URL, "https:") && !strings.HasPrefix(metadata.Keys, "https:") {
		return nil, fmt.Errorf("its jwks_uri %q is not https://, as the issuer is", metadata.Keys)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, metadata.Keys, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, withoutMethod(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", metadata.Keys, resp.Status)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", metadata.Keys, err)
	}
	return keys, nil
}

// CheckIssuer refuses a URL under which anybody could answer for an issuer.
func CheckIssuer(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("it is no URL")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Host == "":
		return errors.New("want https://HOST/PATH")
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	}
	return errors.New("want https: over http anybody on the way could sign tokens")
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// client returns a client that follows no redirects, reads short answers only, and shows the
// issuer's token.
func (i Issuer) client(through http.RoundTripper) (*http.Client, error) {
	// Fetches are minutes apart, so no connection is kept.
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: 64 << 10, TLSHandshakeTimeout: fetchTime, DisableKeepAlives: true}
	if i.CAFile != "" {
		text, err := os.ReadFile(i.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca: %s: no certificate in PEM form", i.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	bounded := boundedTransport{transport: transport}
	if through != nil {
		bounded.transport = through
	}
	if i.TokenFile != "" {
		text, err := os.ReadFile(i.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("token_file: %w", err)
		}
		bounded.token = strings.TrimSpace(string(text))
	}
	return &http.Client{Transport: bounded}, nil
}

// boundedTransport bounds the answers of an issuer.
type boundedTransport struct {
	transport http.RoundTripper
	token     string // empty: none is shown
}

// RoundTrip implements [http.RoundTripper].
func (t boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	resp, err := t.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 3 {
		resp.Body.Close()
		return nil, errors.New("it redirects, which is not followed")
	}
	if resp.StatusCode != http.StatusOK { // its text may be anything
		resp.Body.Close()
		resp.Body = http.NoBody
		return resp, nil
	}
	resp.Body = boundedBody{io.LimitReader(resp.Body, mostAnswer+1), resp.Body, new(int)}
	return resp, nil
}

// boundedBody fails once more than mostAnswer bytes were read.
type boundedBody struct {
	io.Reader
	io.Closer
	read *int
}

func (b boundedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if *b.read += n; *b.read > mostAnswer {
		return n, fmt.Errorf("the answer is longer than %d bytes", mostAnswer)
	}
	return n, err
}

// withoutMethod removes the method that net/http puts before an error.
func withoutMethod(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s: %w", u.URL, u.Err)
	}
	return err
}
