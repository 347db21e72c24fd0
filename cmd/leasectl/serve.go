package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyserver"
	"github.com/leasectl/leasectl/trap"
)

// defaultListen is where serve listens if neither --listen nor --socket says.
const defaultListen = "127.0.0.1:8370"

type serveOptions struct {
	listen   string
	socket   string
	config   string
	data     string
	maxWait  time.Duration
	insecure bool
	tlsCert  string
	tlsKey   string
	localOf  string // the state directory whose local proxy this is
}

func newServeCommand(a *app) *cobra.Command {
	o := new(serveOptions)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "run a lease proxy",
		Long: `Serve runs a lease proxy: its pools come from --pool and --config, its leases
are kept in --data, or in memory without it. It stops on TERM or INT and keeps
the leases for its next start. Messages go to stderr, one line per event.

Its files (--config, --token-file, --tls-cert, --tls-key) are read again when
they change, within a few seconds, or at once on HUP. What cannot be taken up is
logged, shown by /readyz, and changes nothing.

With --token-file, clients must show a token of that file, and nobody renews or
ends a lease that was acquired with a token of another name. Each line has a
name, a token, and the word admin if it may break leases; a # begins a comment.`,
		Example: `  leasectl serve --listen 127.0.0.1:0 --pool install=2 --data ./leases
  leasectl serve --listen :8370 --config pools.yaml --data ./leases \
    --token-file tokens --tls-cert cert.pem --tls-key key.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", "", "address to listen on, port 0 for a free one (default "+defaultListen+", or none with --socket)")
	flags.StringVar(&o.socket, "socket", "", "path of a Unix socket to listen on")
	flags.StringVar(&o.config, "config", "", "YAML file with the pools, as Boskos deployments have it")
	flags.StringVar(&o.data, "data", "", "directory that keeps the leases over restarts (default: in memory)")
	flags.Var(durationValue(&o.maxWait, 2*time.Hour, time.Second, 7*24*time.Hour), "max-wait", "how long an acquire without a request id may wait")
	flags.StringVar(&o.tlsCert, "tls-cert", "", "PEM file with the certificate for https, and those up to its authority")
	flags.StringVar(&o.tlsKey, "tls-key", "", "PEM file with the certificate's key")
	flags.BoolVar(&o.insecure, "insecure", false, "allow an address other than loopback without tokens and TLS: everybody who reaches it can take and end leases")
	flags.StringVar(&o.localOf, "local-of", "", "")
	flags.Lookup("local-of").Hidden = true
	return cmd
}

// serve runs until the context ends. Whoever waits for it as a background
// process is told when it serves, or why it does not.
func (a *app) serve(ctx context.Context, o *serveOptions) (err error) {
	if o.localOf != "" {
		defer func() {
			if err != nil {
				trap.Ready(err)
			}
		}()
	}
	if err := o.check(a.proxy.tokenFile); err != nil {
		return err
	}
	set := &settings{app: a, options: proxyserver.Options{
		Data:    o.data,
		Log:     slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: a.logLevel()})),
		Version: version(),
		MaxWait: o.maxWait,
	}}
	if err := set.read(o); err != nil {
		return err
	}
	if o.localOf != "" {
		hide := &localHide{dir: o.localOf}
		defer hide.close() // after the socket is closed: see listen
		set.options.Idle = &proxyserver.Idle{After: localIdle, Hide: hide.hide}
	}
	listeners, done, err := listen(ctx, o, set.secure())
	if err != nil {
		return err
	}
	defer done()
	if set.server, err = proxyserver.New(set.options); err != nil {
		return err
	}
	for _, l := range listeners {
		switch {
		case l.Addr().Network() != "tcp":
			a.notef("listening on unix://%s (process %d)", o.socket, os.Getpid())
		case o.tlsCert != "":
			a.notef("listening on https://%s", l.Addr())
		default:
			a.notef("listening on http://%s", l.Addr())
		}
	}
	if o.localOf != "" {
		trap.Ready(nil)
	}
	defer set.keepUp(ctx)()
	return set.server.Serve(ctx, listeners...)
}

func (a *app) logLevel() slog.Level {
	switch {
	case a.quiet:
		return slog.LevelWarn
	case a.verbose:
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// localHide takes the local proxy out of sight before it stops.
type localHide struct {
	dir    string
	unlock func()
}

// hide takes the lock under which local proxies start, and keeps it until the
// process ends if the proxy stops; then it moves the socket away. Whoever looks
// for the proxy from now on waits for the lock and starts a new one.
func (h *localHide) hide() (unhide func(), err error) {
	unlock, err := lockfile.Lock(localLock(h.dir))
	if err != nil {
		return nil, err // somebody is about to use this proxy
	}
	socket := localSocket(h.dir)
	hidden := socket + ".ending"
	if err := os.Rename(socket, hidden); err != nil {
		unlock()
		return nil, fmt.Errorf("hide the socket: %w", err)
	}
	h.unlock = func() {
		os.Remove(hidden)
		unlock()
	}
	return func() {
		os.Rename(hidden, socket)
		h.unlock = nil
		unlock()
	}, nil
}

func (h *localHide) close() {
	if h.unlock != nil {
		h.unlock()
	}
}
