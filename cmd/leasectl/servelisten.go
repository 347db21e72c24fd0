package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/leasectl/leasectl/internal/holder/socket"
	"github.com/leasectl/leasectl/internal/proxyserver"
)

// listen opens the listeners of --listen and --socket. If secure is not nil, TCP is served with
// TLS. The caller calls done to close them.
func listen(ctx context.Context, o *serveOptions, secure *tls.Config) (listeners []net.Listener, done func(), err error) {
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
	var config net.ListenConfig
	if o.listen != "" {
		l, err := config.Listen(ctx, "tcp", o.listen)
		if err != nil {
			return nil, done, fmt.Errorf("listen: %w", err)
		}
		if secure != nil {
			l = proxyserver.TLSListener(l, secure)
		}
		listeners = append(listeners, l)
		closers = append(closers, func() { l.Close() })
	}
	if o.socket != "" {
		l, closeSocket, err := socket.Listen(ctx, o.socket)
		if _, taken := errors.AsType[socket.TakenError](err); taken {
			err = usagef("--socket %w", err)
		}
		if err != nil {
			return nil, done, err
		}
		listeners = append(listeners, l)
		closers = append(closers, closeSocket)
	}
	return listeners, done, nil
}
