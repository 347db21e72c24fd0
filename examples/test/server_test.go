package test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// logText is what a process prints.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// server is a process that answers HTTP: mostly a leasectl serve.
type server struct {
	t      *testing.T
	url    string
	token  string       // for all that it is asked here; may be empty
	client *http.Client // that trusts its certificate
	log    *logText
	cmd    *exec.Cmd
	ended  chan struct{}
}

// serve starts a server on loopback, without tokens.
func serve(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{t: t, client: &http.Client{Timeout: patience}}
	s.start(serveCommand(append([]string{"--listen", "127.0.0.1:0"}, args...)...))
	return s
}

func serveCommand(args ...string) *exec.Cmd {
	return exec.Command(*program, append([]string{"serve"}, args...)...)
}

// launch runs cmd until the test ends.
func (s *server) launch(cmd *exec.Cmd) {
	s.t.Helper()
	s.log, s.cmd, s.ended = new(logText), cmd, make(chan struct{})
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		cmd.Wait()
		close(s.ended)
	}()
	s.t.Cleanup(s.stop)
}

// start runs cmd, which is a server, until the test ends. It returns when the server listens.
func (s *server) start(cmd *exec.Cmd) {
	s.t.Helper()
	s.launch(cmd)
	listening := regexp.MustCompile(`listening on (https?://[0-9.:]+)`)
	await(s.t, "the server listens", func() bool {
		select {
		case <-s.ended:
			s.t.Fatalf("the server ended: %v\n%s", cmd.ProcessState, s.log)
		default:
		}
		m := listening.FindStringSubmatch(s.log.String())
		if m != nil {
			s.url = m[1]
		}
		return m != nil
	})
}

// stop ends the server by TERM. A second one does nothing.
func (s *server) stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	<-s.ended
	if !s.cmd.ProcessState.Success() || s.t.Failed() {
		s.t.Logf("%s: %v\n%s", s.cmd.Path, s.cmd.ProcessState, s.log)
	}
}

// get returns the status and the answer of a GET.
func (s *server) get(path string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequest("GET", s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// metric is the value of a sample, as in leasectl_in_use{type="install"}; -1 if there is none.
func (s *server) metric(sample string) float64 {
	s.t.Helper()
	_, text := s.get("/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, sample+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				s.t.Fatal(line, err)
			}
			return v
		}
	}
	return -1
}

func (s *server) inUse(typ string) int {
	return int(s.metric(fmt.Sprintf("leasectl_in_use{type=%q}", typ)))
}
func (s *server) waiting(typ string) int {
	return int(s.metric(fmt.Sprintf("leasectl_waiting{type=%q}", typ)))
}
func (s *server) granted(typ string) int {
	return int(s.metric(fmt.Sprintf("leasectl_grants_total{type=%q}", typ)))
}

// awaitIdle returns when nothing is held or waited for.
func (s *server) awaitIdle(typ string) {
	s.t.Helper()
	await(s.t, "no lease of "+typ+" is held or waited for", func() bool { return s.inUse(typ) == 0 && s.waiting(typ) == 0 })
}
