package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// listen opens what --listen and --socket name; secure, if not nil, is for TCP.
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
			l = tls.NewListener(l, secure)
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

// check refuses an address that strangers may reach, unless what they can do
// there is bounded, and half a pair of TLS files.
func (o *serveOptions) check(tokenFile string) error {
	if o.listen == "" && o.socket == "" {
		o.listen = defaultListen
	}
	if (o.tlsCert == "") != (o.tlsKey == "") {
		return usagef("--tls-cert and --tls-key go together: the certificate and its key")
	}
	if o.listen == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return usagef("--listen %q: want HOST:PORT, such as 127.0.0.1:0", o.listen)
	}
	ip := net.ParseIP(host)
	if o.insecure || host == "localhost" || ip != nil && ip.IsLoopback() || tokenFile != "" && o.tlsCert != "" {
		return nil
	}
	return usagef("--listen %q: not a loopback address: whoever reaches it could take and end leases: add --token-file, --tls-cert and --tls-key, or --insecure if that is meant", o.listen)
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
