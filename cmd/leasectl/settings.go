package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/leasectl/leasectl/proxyserver"
)

// settings are what serve was told by flags and files. Before the server is
// there they become its options; afterwards it is given what has changed.
type settings struct {
	app     *app
	options proxyserver.Options
	server  *proxyserver.Server // nil while it is not there
	sources []*source
	cert    atomic.Pointer[tls.Certificate] // nil without TLS
}

// read reads all files for the first time.
func (s *settings) read(o *serveOptions) error {
	s.options.Pools = s.app.proxy.pools.configs()
	if o.config != "" {
		s.sources = append(s.sources, &source{name: "config", files: []string{o.config}, take: func(texts [][]byte) error {
			return s.takeConfig(o.config, texts[0])
		}})
	}
	if file := s.app.proxy.tokenFile; file != "" {
		s.sources = append(s.sources, &source{name: "token-file", files: []string{file}, take: func(texts [][]byte) error {
			return s.takeTokens(file, texts[0])
		}})
	}
	if o.tlsCert != "" {
		s.sources = append(s.sources, &source{name: "tls-cert", files: []string{o.tlsCert, o.tlsKey}, take: func(texts [][]byte) error {
			return s.takeCert(o, texts[0], texts[1])
		}})
	}
	if err := startAll(s.sources); err != nil {
		return usageError{err}
	}
	if len(s.options.Pools) == 0 && o.localOf == "" {
		return usagef("no pool to serve: name one with --pool TYPE=N or --config FILE")
	}
	return nil
}

// takeConfig makes the pools those of the flags and of the file.
func (s *settings) takeConfig(file string, text []byte) error {
	config, warnings, err := proxyserver.ParseConfig(file, text)
	for _, w := range warnings {
		s.app.Notef("%v", w)
	}
	if err != nil {
		return err
	}
	pools := append(s.app.proxy.pools.configs(), config.Pools...)
	if s.server == nil {
		s.options.Pools = pools
		return nil
	}
	return s.server.SetPools(pools)
}

func (s *settings) takeTokens(file string, text []byte) error {
	tokens, err := proxyserver.ParseTokens(file, text)
	switch {
	case err != nil:
		return err
	case s.server == nil:
		s.options.Tokens = tokens
	default:
		s.server.SetTokens(tokens)
	}
	return nil
}

func (s *settings) takeCert(o *serveOptions, cert, key []byte) error {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("--tls-cert %s, --tls-key %s: %w", o.tlsCert, o.tlsKey, err)
	}
	s.cert.Store(&pair)
	return nil
}

// secure is how TLS is spoken; nil if it is not.
func (s *settings) secure() *tls.Config {
	if s.cert.Load() == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.cert.Load(), nil },
	}
}

// keepUp reads the files again when they change, until stop. Without any, a
// hangup ends the program as it does elsewhere.
func (s *settings) keepUp(ctx context.Context) (stop func()) {
	if len(s.sources) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	hangups, restore := s.app.hangups()
	var running sync.WaitGroup
	running.Go(func() { watch(ctx, s.sources, s.server, hangups) })
	return func() {
		restore()
		cancel()
		running.Wait()
	}
}
