package browsertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long anything may take: a loaded machine is slow.
const patience = time.Minute

// Tokens of the server.
const (
	adminToken = "admin-token-0123456789"
	readToken  = "read-token-0123456789"
	jobToken   = "job-token-0123456789"
)

// server is a leasectl serve.
type server struct {
	t   *testing.T
	url string
	log *logText
}

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

// serve starts a server with tokens and pools such as "install=2".
func serve(t *testing.T, pools ...string) *server {
	t.Helper()
	var args []string
	for _, p := range pools {
		args = append(args, "--pool", p)
	}
	return serveWith(t, args...)
}

// serveWith starts a server with arguments that name its pools.
func serveWith(t *testing.T, args ...string) *server {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens")
	text := fmt.Sprintf("oncall %s admin\nboard %s read\nci %s\n", adminToken, readToken, jobToken)
	if err := os.WriteFile(tokens, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--tokens", tokens}, args...)
	s := &server{t: t, log: new(logText)}
	cmd := exec.Command(*program, args...)
	cmd.Stderr = s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("serve: %v\n%s", err, s.log)
		}
	})
	listening := regexp.MustCompile(`listening on (http://[0-9.:]+)`)
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if m := listening.FindStringSubmatch(s.log.String()); m != nil {
			s.url = m[1]
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("the server does not listen\n%s", s.log)
		}
	}
}

// call sends a request as a job does, and returns the status and the answer.
func (s *server) call(path, body string) (int, string) {
	s.t.Helper()
	return s.callAs(jobToken, path, body)
}

// callAs is call with a token.
func (s *server) callAs(token, path, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequest("POST", s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := (&http.Client{Timeout: patience}).Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// lease is a lease that a job holds.
type lease struct {
	Name       string `json:"name"`
	Generation uint64 `json:"generation"`
}

// acquire takes a lease, which must be free, and confirms it.
func (s *server) acquire(typ, id, owner string) lease {
	s.t.Helper()
	status, text := s.call("/lease/acquire", fmt.Sprintf(`{"type":%q,"request_id":%q,"owner":%q}`, typ, id, owner))
	var reply struct{ Leases []lease }
	if err := json.Unmarshal([]byte(text), &reply); err != nil || status != 200 {
		s.t.Fatalf("acquire: %d %s", status, text)
	}
	l := reply.Leases[0]
	if status, text := s.call("/lease/renew", fmt.Sprintf(`{"leases":[{"name":%q,"generation":%d}]}`, l.Name, l.Generation)); status != 200 {
		s.t.Fatalf("renew: %d %s", status, text)
	}
	return l
}

// queue makes a job wait, which asks again when the server tells it to. Its last answer comes
// over the channel. More are other parameters, such as name=N.
func (s *server) queue(typ, id, owner string, more ...string) <-chan string {
	told := make(chan string, 1)
	go func() {
		for {
			answer := s.ask(typ, id, owner, more...)
			if !strings.HasPrefix(answer, "202") {
				told <- answer
				return
			}
		}
	}()
	return told
}

// ask asks for a lease once, and returns the status and the body of the answer.
func (s *server) ask(typ, id, owner string, more ...string) string {
	asks := map[string]any{"type": typ, "request_id": id, "owner": owner, "wait": "1h"}
	for _, field := range more {
		key, value, _ := strings.Cut(field, "=")
		if asks[key] = value; key == "also" {
			asks[key] = []map[string]string{{"type": value}}
		}
	}
	body, err := json.Marshal(asks)
	if err != nil {
		return err.Error()
	}
	req, err := http.NewRequest("POST", s.url+"/lease/acquire", bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+jobToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.Status + " " + string(text)
}

func (s *server) release(l lease) {
	s.t.Helper()
	if status, text := s.call("/lease/release", fmt.Sprintf(`{"names":[%q]}`, l.Name)); status != 204 {
		s.t.Fatalf("release: %d %s", status, text)
	}
}
