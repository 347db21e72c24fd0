package main

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/config"
)

// settings are the flags and files of serve. Until the server is made they go into its options;
// afterwards each change is passed to the server.
type settings struct {
	app         *app
	options     proxyserver.Options
	server      *proxyserver.Server // nil until it is made
	sources     []*config.Source
	certificate config.Certificate
	hangups     <-chan struct{} // each asks for a reload; nil: there are no files

	auth   auth.Config  // of --auth
	tokens []auth.Token // of --tokens

	readEtcdFile func(file string) ([]byte, error)
}

// read reads all files for the first time. If a file is a pipe, it blocks until the writer is done
// or ctx ends.
func (s *settings) read(ctx context.Context, o *serveOptions) error {
	s.options.Pools = s.app.proxy.pools.configs()
	if o.config != "" {
		s.sources = append(s.sources, config.PoolsFrom("config", o.config, s.warn, s.takePools))
	}
	if o.auth != "" {
		s.sources = append(s.sources, config.AuthFrom("auth", o.auth, s.warn, func(c auth.Config) error { return s.takeAuth(c, s.tokens) }))
	}
	if o.tokens != "" {
		s.sources = append(s.sources, config.TokensFrom("tokens", o.tokens, s.warn, func(tokens []auth.Token) error { return s.takeAuth(s.auth, tokens) }))
	}
	if o.tlsCert != "" {
		s.sources = append(s.sources, config.CertificateFrom("tls-cert", o.tlsCert, o.tlsKey, s.warn, &s.certificate))
	}
	err := config.Start(ctx, s.sources, s.warn)
	if err == nil {
		s.readEtcdFile, err = config.Pipes(ctx, o.database.files(), s.warn)
	}
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return usageError{err}
	}
	select {
	case <-s.hangups: // the files were just read; a pipe could not be read again
	default:
	}
	if len(s.options.Pools) == 0 && o.localOf == "" {
		return usagef("no pool to serve: name one with --pool TYPE=N or --config FILE")
	}
	// Without this check a server on etcd or PostgreSQL would fail only when it leads.
	if err := pool.Check(s.options.Pools); err != nil {
		return usagef("--pool and --config: %w", err)
	}
	return nil
}

func (s *settings) warn(w config.Warning) { s.options.Log.Warn(w.String()) }

// takePools sets the pools to those of the flags and of the file. Like a start, it refuses to leave
// a server without pools.
func (s *settings) takePools(ofFile []pool.Config) error {
	pools := append(s.app.proxy.pools.configs(), ofFile...)
	if s.server == nil {
		s.options.Pools = pools
		return nil
	}
	if len(pools) == 0 {
		return errors.New("no pool would be left, which a start would refuse: to grant nothing, pause the pools")
	}
	return s.server.SetPools(pools)
}

// takeAuth sets who may ask to what --auth and --tokens say. A token that both have is that of
// --auth, so that a line can move between the files, whichever is read first.
func (s *settings) takeAuth(c auth.Config, tokens []auth.Token) error {
	inAuth := func(t auth.Token) bool {
		return slices.ContainsFunc(c.Tokens, func(other auth.Token) bool { return other.Sum == t.Sum })
	}
	both := auth.Config{Tokens: slices.Concat(c.Tokens, slices.DeleteFunc(slices.Clone(tokens), inAuth)), Issuers: c.Issuers}
	s.auth, s.tokens = c, tokens
	if s.server == nil {
		s.options.Auth = &both
		return nil
	}
	s.server.SetAuth(&both)
	return nil
}

// catchHangups makes SIGHUP reload the files of o until restore is called, also if it comes before
// the server serves. Without files SIGHUP ends the program, as in other commands.
func (s *settings) catchHangups(o *serveOptions) (restore func()) {
	if o.config == "" && !o.asksForTokens() && o.tlsCert == "" {
		return func() {}
	}
	s.hangups, restore = s.app.hangups()
	return restore
}

// keepUp reloads the files when they change, until ctx ends or stop is called.
func (s *settings) keepUp(ctx context.Context) (stop func()) {
	if len(s.sources) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { config.Watch(ctx, s.sources, s.hangups, s.server.Reloaded) })
	return func() {
		cancel()
		running.Wait()
	}
}
