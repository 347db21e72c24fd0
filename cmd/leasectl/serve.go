package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/internal/holder/local"
	"github.com/leasectl/leasectl/internal/process"
	"github.com/leasectl/leasectl/internal/proxyserver"
)

func newServeCommand(a *app) *cobra.Command {
	o := new(serveOptions)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "run a lease proxy",
		Long: `Serve runs a lease proxy: its pools come from --pool and --config, its leases
are kept in --data, or in memory without it. It stops on TERM or INT and keeps
the leases for its next start. Messages go to stderr, one line per event.

Its files (--config, --auth, --tokens, --tls-cert, --tls-key) are read again when
they change, within a few seconds, or at once on HUP. An invalid file is rejected
and the old settings stay; the log and /readyz say why. The files for etcd are
read when they are needed. A pipe, such as <(…), is read once.

With --data etcd://HOST:PORT,…/PREFIX or --data postgres://USER@HOST/DB any number of
servers share their leases: one leads, and the others refuse calls and say who
does. When the leader dies, stops or is cut off, another one goes on after
--leader-ttl, at once if it stops by itself. The URL of PostgreSQL is as libpq
takes it, and the password is in a file (PGPASSFILE, ~/.pgpass).

With --auth, clients must show a token (their --token-file or --token-from), and
nobody renews or ends a lease of another caller. The YAML file lists tokens, by
their SHA-256, and issuers whose signed tokens CI jobs have already, with rules
that turn claims into a name, and a role and pools for each. With --tokens, a
file has a token a line: a name, a token of 16 bytes or more, and admin if it may
operate the server (break, remove, move, pause, resume, reserve,
backup) or read if it may
only look; a # begins a comment.

The .deb and the .rpm have a systemd unit, leasectl.service, which runs serve with
the files in /etc/leasectl. Installing them neither enables nor starts it.`,
		Example: `  leasectl serve --listen 127.0.0.1:0 --pool install=2 --data ./leases
  leasectl serve --listen :8370 --config pools.yaml --data ./leases \
    --auth auth.yaml --tls-cert cert.pem --tls-key key.pem
  leasectl serve --listen :8370 --config pools.yaml --tokens tokens --tls-cert cert.pem \
    --tls-key key.pem --data etcd://etcd-0:2379,etcd-1:2379/leases --advertise https://a.example:8370
  leasectl serve --listen :8370 --config pools.yaml --tokens tokens --tls-cert cert.pem \
    --tls-key key.pem --data postgres://leases@db.example/leases --advertise https://a.example:8370`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// A job sets LEASECTL_POOL for its local proxy, so --config has precedence.
			if o.config != "" {
				a.proxy.pools = ifTyped(cmd.Flags().Lookup("pool"), a.proxy.pools)
			}
			if err := o.database.check(o.data, cmd.Flags()); err != nil {
				return err
			}
			return a.serve(cmd.Context(), o)
		},
	}
	o.bind(cmd.Flags())
	return cmd
}

// serve runs a proxy until ctx ends or the proxy is idle. A local proxy tells the process that
// started it when it serves, or why it does not.
func (a *app) serve(ctx context.Context, o *serveOptions) (err error) {
	useAllProcessors()
	boundMemory()
	if o.localOf != "" {
		defer func() {
			if err != nil {
				process.Ready(err)
			}
		}()
	}
	log := a.openLog(o.logFormat)
	defer func() { err = logFailure(log, o.logFormat, err) }()
	switch { // from the environment they are meant for clients
	case a.proxy.tokenFileGiven:
		return usagef("--token-file is for clients: the tokens that serve wants of them are in --auth or --tokens")
	case a.proxy.tokenFromGiven:
		return usagef("--token-from is for clients: whose tokens serve wants of them is in --auth")
	}
	if err := o.check(); err != nil {
		return err
	}
	set := &settings{app: a, options: proxyserver.Options{Log: log, Version: version(), MaxWait: o.maxWait, PriorityAging: o.priorityAging(), Hosts: o.hosts(), DroppedLines: a.messages.DroppedLines}}
	defer set.catchHangups(o)()
	if err := set.read(ctx, o); err != nil {
		return err
	}
	if o.onlyCheck {
		set.log("the settings are good", o)
		return nil
	}
	end := local.NewEnd(o.localOf)
	if o.localOf != "" {
		defer end.Close() // after done has closed the socket
		set.options.Idle = &proxyserver.Idle{After: o.localIdle, Hide: end.Hide}
	}
	if o.tlsCert != "" {
		set.options.Leaf = set.certificate.Leaf
	}
	listeners, done, err := listen(ctx, o, set.certificate.TLS())
	if err != nil {
		return err
	}
	defer done()
	if o.localOf != "" {
		if err := end.Listening(); err != nil {
			return err
		}
	}
	if err := o.openData(&set.options, set.readEtcdFile); err != nil {
		return err
	}
	if set.server, err = proxyserver.New(set.options); err != nil {
		return err
	}
	for _, l := range listeners {
		log.Info(fmt.Sprintf("listening on %s (process %d)", o.urlOf(l), os.Getpid()))
	}
	set.log("serving", o)
	a.messages.Flush() // others may look for the address as soon as we serve
	if o.localOf != "" {
		process.Ready(nil)
	}
	defer set.keepUp(ctx)()
	defer holdBallast()()
	err = set.server.Serve(ctx, listeners...)
	logStop(ctx, log, err)
	return err
}
