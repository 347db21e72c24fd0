package test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var program = flag.String("leasectl", "", "the program to test")

// patience is how long anything may take: a loaded machine is slow.
const patience = 2 * time.Minute

// tools are what the tests run, and the packages that have it.
var tools = map[string]string{
	"bash": "bash", "sh": "dash", "node": "nodejs", "etcd": "etcd-server", "etcdctl": "etcd-client", "cc": "gcc",
	"promtool": "prometheus", "prometheus": "prometheus", "systemd-analyze": "systemd",
}

func TestMain(m *testing.M) {
	restrictThenExec() // if this is the server of the test of the unit
	flag.Parse()
	if *program == "" {
		fmt.Fprintln(os.Stderr, "test: -leasectl names the program to test: use make test-examples")
		os.Exit(2)
	}
	for tool, pkg := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			fmt.Fprintf(os.Stderr, "test: %s is missing: install the package %s\n", tool, pkg)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}

// read returns the text of a file of examples/.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// writePrivate writes a file that nobody else may read.
func writePrivate(t *testing.T, path, text string) string {
	t.Helper()
	write(t, path, text)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// await returns when ok does.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %v in vain: %s", patience, what)
		}
	}
}

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

// server is a leasectl serve.
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

// start runs cmd, which is a server, until the test ends. It returns when the server
// listens, or has ended.
func (s *server) start(cmd *exec.Cmd) {
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
		s.t.Logf("serve: %v\n%s", s.cmd.ProcessState, s.log)
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

// job is the machine of a job: a directory, and an environment with little in it.
type job struct {
	t   *testing.T
	dir string
	env []string
}

// newJob makes one with leasectl in its PATH, behind commands of its own in dir/bin.
func newJob(t *testing.T, env ...string) *job {
	t.Helper()
	j := &job{t: t, dir: t.TempDir()}
	bin := filepath.Join(j.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(*program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(bin, "leasectl")); err != nil {
		t.Fatal(err)
	}
	j.env = append([]string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + j.dir, "LEASECTL_STATE_DIR=" + filepath.Join(j.dir, "state")}, env...)
	return j
}

// command makes an executable of dir/name: a bash script.
func (j *job) command(name, script string) {
	j.t.Helper()
	path := write(j.t, filepath.Join(j.dir, name), "#!/usr/bin/env bash\n"+script+"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		j.t.Fatal(err)
	}
}

// run is a process of the job. It prints to a file: a pipe would be waited for, which what
// the process left behind may have.
type run struct {
	*exec.Cmd
	t     *testing.T
	log   string
	ended chan struct{}
}

func (r *run) printed() string {
	text, err := os.ReadFile(r.log)
	if err != nil {
		r.t.Error(err)
	}
	return string(text)
}

// start starts a process with further variables.
func (j *job) start(env []string, args ...string) *run {
	j.t.Helper()
	log, err := os.CreateTemp(j.t.TempDir(), "log")
	if err != nil {
		j.t.Fatal(err)
	}
	defer log.Close()
	r := &run{Cmd: exec.Command(args[0], args[1:]...), t: j.t, log: log.Name(), ended: make(chan struct{})}
	r.Dir, r.Env = j.dir, append(slices.Clone(j.env), env...)
	r.Stdout, r.Stderr = log, log
	r.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.Start(); err != nil {
		j.t.Fatal(err)
	}
	go func() {
		r.Wait()
		close(r.ended)
	}()
	j.t.Cleanup(func() {
		syscall.Kill(-r.Process.Pid, syscall.SIGKILL)
		<-r.ended
	})
	return r
}

// code waits for the exit code, 128+n after a signal.
func (r *run) code() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.t.Fatalf("%v does not end:\n%s", r.Args, r.printed())
	}
	if status := r.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return r.ProcessState.ExitCode()
}

// exits checks the exit code.
func (r *run) exits(want int) string {
	r.t.Helper()
	if got := r.code(); got != want {
		r.t.Errorf("%v: exit code %d, want %d:\n%s", r.Args, got, want, r.printed())
	}
	return r.printed()
}
