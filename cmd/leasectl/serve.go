package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"syscall"
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
	localOf  string // the state directory whose local proxy this is
}

func newServeCommand(a *app) *cobra.Command {
	o := new(serveOptions)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "run a lease proxy",
		Long: `Serve runs a lease proxy: its pools come from --pool and --config, its leases
are kept in --data, or in memory without it. It stops on TERM or INT and keeps
the leases for its next start. Messages go to stderr, one line per event.`,
		Example: `  leasectl serve --listen 127.0.0.1:0 --pool install=2 --data ./leases`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", "", "address to listen on, port 0 for a free one (default "+defaultListen+", or none with --socket)")
	flags.StringVar(&o.socket, "socket", "", "path of a Unix socket to listen on")
	flags.StringVar(&o.config, "config", "", "YAML file with the pools, as Boskos deployments have it")
	flags.StringVar(&o.data, "data", "", "directory that keeps the leases over restarts (default: in memory)")
	flags.Var(durationValue(&o.maxWait, 2*time.Hour, time.Second, 7*24*time.Hour), "max-wait", "how long an acquire without a request id may wait")
	flags.BoolVar(&o.insecure, "insecure", false, "allow an address other than loopback: everybody who reaches it can take and end leases")
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
	options, err := a.serverOptions(o)
	if err != nil {
		return err
	}
	if o.localOf != "" {
		hide := &localHide{dir: o.localOf}
		defer hide.close() // after the socket is closed: see listen
		options.Idle = &proxyserver.Idle{After: localIdle, Hide: hide.hide}
	}
	listeners, done, err := a.listen(ctx, o)
	if err != nil {
		return err
	}
	defer done()
	server, err := proxyserver.New(options)
	if err != nil {
		return err
	}
	for _, l := range listeners {
		if l.Addr().Network() == "tcp" {
			a.notef("listening on http://%s", l.Addr())
		} else {
			a.notef("listening on unix://%s (process %d)", o.socket, os.Getpid())
		}
	}
	if o.localOf != "" {
		trap.Ready(nil)
	}
	return server.Serve(ctx, listeners...)
}

// serverOptions gathers the pools and the rest.
func (a *app) serverOptions(o *serveOptions) (proxyserver.Options, error) {
	options := proxyserver.Options{
		Pools:   a.proxy.pools.configs(),
		Data:    o.data,
		Log:     slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: a.logLevel()})),
		Version: version(),
		MaxWait: o.maxWait,
	}
	if o.config != "" {
		text, err := os.ReadFile(o.config)
		if err != nil {
			return options, usagef("--config: %w", err)
		}
		config, warnings, err := proxyserver.ParseConfig(o.config, text)
		if err != nil {
			return options, usageError{err}
		}
		for _, w := range warnings {
			a.notef("%v", w)
		}
		options.Pools = append(options.Pools, config.Pools...)
	}
	if len(options.Pools) == 0 && o.localOf == "" {
		return options, usagef("no pool to serve: name one with --pool TYPE=N or --config FILE")
	}
	return options, nil
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

// listen opens what --listen and --socket name.
func (a *app) listen(ctx context.Context, o *serveOptions) (listeners []net.Listener, done func(), err error) {
	var closers []func()
	done = func() {
		for _, c := range closers {
			c()
		}
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	if o.listen == "" && o.socket == "" {
		o.listen = defaultListen
	}
	var config net.ListenConfig
	if o.listen != "" {
		if err := checkListen(o.listen, o.insecure); err != nil {
			return nil, done, err
		}
		l, err := config.Listen(ctx, "tcp", o.listen)
		if err != nil {
			return nil, done, fmt.Errorf("listen: %w", err)
		}
		listeners = append(listeners, l)
		closers = append(closers, func() { l.Close() })
	}
	if o.socket != "" {
		l, closeSocket, err := listenSocket(ctx, o.socket)
		if err != nil {
			return nil, done, err
		}
		listeners = append(listeners, l)
		closers = append(closers, closeSocket)
	}
	return listeners, done, nil
}

// checkListen refuses an address that strangers may reach.
func checkListen(address string, insecure bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return usagef("--listen %q: want HOST:PORT, such as 127.0.0.1:0", address)
	}
	ip := net.ParseIP(host)
	if insecure || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return usagef("--listen %q: not a loopback address: whoever reaches it could take and end leases; add --insecure if that is meant", address)
}

// listenSocket listens on a Unix socket that only we may connect to. A file
// that a killed server left is replaced; one that somebody serves is not.
func listenSocket(ctx context.Context, path string) (net.Listener, func(), error) {
	short, done, err := shortSocket(path)
	if err != nil {
		return nil, nil, err
	}
	if info, err := os.Lstat(path); err == nil {
		switch {
		case info.Mode().Type() != fs.ModeSocket:
			done()
			return nil, nil, usagef("--socket %q: a file that is not a socket is there", path)
		case listens(short):
			done()
			return nil, nil, usagef("--socket %q: another server listens there", path)
		}
		if err := os.Remove(path); err != nil {
			done()
			return nil, nil, fmt.Errorf("remove the socket of an earlier server: %w", err)
		}
	}
	old := syscall.Umask(0o177) // the socket is ours alone from its first moment
	l, err := new(net.ListenConfig).Listen(ctx, "unix", short)
	syscall.Umask(old)
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("listen on socket %s: %w", path, err)
	}
	// The path may be another server's by the time we close: only our own
	// socket is removed.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	ours, err := os.Lstat(path)
	if err != nil {
		l.Close()
		done()
		return nil, nil, fmt.Errorf("listen on socket %s: %w", path, err)
	}
	return l, func() {
		if now, err := os.Lstat(path); err == nil && os.SameFile(ours, now) {
			os.Remove(path)
		}
		l.Close()
		done()
	}, nil
}

// listens tells whether somebody accepts connections on a Unix socket.
func listens(socket string) bool {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	conn.Close()
	return true
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
	unlock, err := lockfile.Hold(localLock(h.dir))
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
