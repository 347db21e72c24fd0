package main

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// server is a process that serves on loopback until it is stopped.
type server struct {
	url  string // http://127.0.0.1:PORT
	addr string
	env  []string // what a client needs to know beside the URL
	log  string   // file of its stderr
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; set before done is closed
}

// startTime bounds the start of a server: etcd takes a second or two, and one that remembers a million
// requests takes many on a busy machine.
const startTime = 2 * time.Minute

// serve starts leasectl serve, as it would run in production: its log goes
// to a file.
func (w *world) serve(ctx context.Context, args ...string) (*server, error) {
	return w.start(ctx, w.leasectl, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
}

// serveDurable starts leasectl serve with a data directory.
func (w *world) serveDurable(ctx context.Context, args ...string) (*server, error) {
	return w.serve(ctx, append(args, "--data", w.fresh("data"))...)
}

// serveTLS starts leasectl serve with a certificate of its own and a token. The settings for
// clients are in env of the server.
func (w *world) serveTLS(ctx context.Context, args ...string) (*server, error) {
	dir := w.fresh("tls")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	cert, key, token, tokens := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "token"), filepath.Join(dir, "tokens")
	secret := rand.Text()
	err := errors.Join(writeCertificate(cert, key),
		os.WriteFile(token, []byte(secret+"\n"), 0o600),
		os.WriteFile(tokens, []byte("bench "+secret+"\n"), 0o600))
	if err != nil {
		return nil, err
	}
	s, err := w.serve(ctx, append(args, "--tls-cert", cert, "--tls-key", key, "--tokens", tokens)...)
	if err == nil {
		s.env = []string{"LEASECTL_CA=" + cert, "LEASECTL_TOKEN_FILE=" + token}
	}
	return s, err
}

// writeCertificate writes a certificate for 127.0.0.1, signed by itself, and its
// key.
func writeCertificate(cert, key string) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return err
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}), 0o600))
}

// bare starts one of the bare peers.
func (w *world) bare(ctx context.Context, name string) (*server, error) {
	dir := w.fresh(name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return w.bareAt(ctx, name, dir)
}

// bareAt starts the bare peer of a name, with its data in a directory or at the URL of a database.
func (w *world) bareAt(ctx context.Context, name, at string) (*server, error) {
	return w.start(ctx, w.self, "-bare", name, "-at", at)
}

var listening = regexp.MustCompile(`listening on (https?://)([0-9.:]+)`)

// start starts a server that says on stderr where it listens.
func (w *world) start(ctx context.Context, program string, args ...string) (*server, error) {
	s, err := w.launch(ctx, program, args...)
	if err != nil {
		return nil, err
	}
	err = s.ready(ctx, func() (bool, error) {
		text, err := os.ReadFile(s.log)
		if err != nil {
			return false, err
		}
		found := listening.FindSubmatch(text)
		if found == nil {
			return false, nil
		}
		s.addr = string(found[2])
		s.url = string(found[1]) + s.addr
		return true, nil
	})
	if err != nil {
		return nil, s.failed(err)
	}
	return s, nil
}

// launch starts a process with what it says in a file.
func (w *world) launch(ctx context.Context, program string, args ...string) (*server, error) {
	s := &server{log: w.fresh("log")}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd = exec.CommandContext(ctx, program, args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.Env = w.environment()
	s.cmd.SysProcAttr = dyingWithUs()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		s.err = s.cmd.Wait()
	}()
	return s, nil
}

// ready waits until f returns true. It fails if the server ends before.
func (s *server) ready(ctx context.Context, f func() (bool, error)) error {
	return await(ctx, startTime, func() (bool, error) {
		select {
		case <-s.done:
			return false, fmt.Errorf("it ended: %w", cmp.Or(s.err, errors.New("without an error")))
		default:
			return f()
		}
	})
}

// stop ends the server and waits for its end. It fails if the server had ended by itself, since
// its measurements are then worthless.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", filepath.Base(s.cmd.Path), err)
	}
	<-s.done
	var exit *exec.ExitError
	if errors.As(s.err, &exit) {
		return nil // any exit code after TERM is accepted
	}
	return s.err
}

// failed ends a server that did not get ready, and adds the end of its log to why.
func (s *server) failed(why error) error {
	s.cmd.Process.Kill() // it may have ended already
	<-s.done
	text, err := os.ReadFile(s.log)
	const enough = 500
	return errors.Join(fmt.Errorf("%s: %w: it said: %s", filepath.Base(s.cmd.Path), why, text[max(0, len(text)-enough):]), err)
}

// environment is the environment of all commands. The caller's settings do not change the
// measurements, and no files are left in the caller's directories.
func (w *world) environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + w.dir,
		"TMPDIR=" + w.dir,
		"LANG=C.UTF-8",
		"LEASECTL_STATE_DIR=" + filepath.Join(w.dir, "state"),
	}
}

// await calls f until it returns true or an error, or the time is over. It polls, because other
// programs offer no event to wait for.
func await(ctx context.Context, most time.Duration, f func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := f(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not ready within %s: %w", most, ctx.Err())
		}
	}
}

// freeAddress returns an address that nobody listens on at the moment, for programs that cannot
// choose one themselves.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
