package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/leaseapi"
)

// testServer is a `leasectl serve` that may end by itself.
type testServer struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *clitest.LiveLog
	url  string
	exit chan int
}

// startServer runs serve with args on a free port, from a shell that first runs the command before,
// if that is not "".
func startServer(t *testing.T, program, before string, args ...string) *testServer {
	t.Helper()
	s := &testServer{t: t, log: new(clitest.LiveLog), exit: make(chan int, 1)}
	script := before + "\nexec \"$@\""
	s.cmd = exec.Command("sh", append([]string{"-c", script, "sh", program, "serve", "--listen", "127.0.0.1:0", "--pool", "q=2"}, args...)...)
	s.cmd.Stderr = s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.exit <- clitest.ExitCode(s.cmd.Wait()) }()
	t.Cleanup(func() { s.cmd.Process.Kill() })
	listening := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	clitest.Await(t, s.log, "it to listen", func() bool {
		s.url = listening.FindString(s.log.String())
		return s.url != ""
	})
	return s
}

// call sends a POST, and returns the status and body of the answer.
func (s *testServer) call(target string) (int, string, error) {
	resp, err := http.Post(s.url+target, "", nil)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// grant acquires and returns a name. It fails the test if it gets none.
func (s *testServer) grant() string {
	s.t.Helper()
	status, body, err := s.call(leaseapi.PathAcquire + "?type=q")
	if err != nil || status != http.StatusOK {
		s.t.Fatalf("acquire: %d %s, %v\n%s", status, body, err, s.log)
	}
	return body
}

// ends waits for the exit. It checks the exit code, that a line contains says, and that there is no
// stack trace.
func (s *testServer) ends(code int, says string) {
	s.t.Helper()
	select {
	case got := <-s.exit:
		text := s.log.String()
		if got != code || !strings.Contains(text, says) || strings.Contains(text, "goroutine ") {
			s.t.Errorf("exit code %d, want %d and %q without a stack trace\n%s", got, code, says, text)
		}
	case <-time.After(clitest.Patience):
		s.t.Fatalf("it did not end\n%s", s.log)
	}
}

// A server whose store is removed or replaced while it runs ends within seconds, also if nobody
// asks it anything. So the path is free for another server.
func TestServeNoticesThatItsStoreIsGone(t *testing.T) {
	program := clitest.Build(t, "")
	for _, c := range []struct {
		name string
		do   func(data string) error
		says string
	}{
		{"moved", func(data string) error { return os.Rename(data, data+".old") }, "was removed or moved"},
		{"removed", func(data string) error { return os.RemoveAll(data) }, "was removed or moved"},
		{"another in its place", func(data string) error {
			other := filepath.Join(data, "other")
			return errors.Join(os.WriteFile(other, nil, 0o600), os.Rename(other, filepath.Join(data, "leases.db")))
		}, "another file is in its place"},
		{"cut short", func(data string) error { return os.Truncate(filepath.Join(data, "leases.db"), 100) }, "it was cut from"},
	} {
		for _, asked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, asked %v", c.name, asked), func(t *testing.T) {
				t.Parallel()
				data := filepath.Join(t.TempDir(), "data")
				s := startServer(t, program, "", "--data", data)
				s.grant()
				if err := c.do(data); err != nil {
					t.Fatal(err)
				}
				if asked {
					if status, body, err := s.call(leaseapi.PathAcquire + "?type=q"); err == nil && status < 500 {
						t.Errorf("an acquire without a store: %d %s", status, body)
					}
				}
				s.ends(74, c.says)
			})
		}
	}
}

// If a server is started, its directory is moved away, and a second server is started on the same
// path, the first server ends. So the two do not go on to grant the same names.
func TestSecondServerOnThePath(t *testing.T) {
	program := clitest.Build(t, "")
	data := filepath.Join(t.TempDir(), "data")
	first := startServer(t, program, "", "--data", data)
	if err := os.Rename(data, data+".old"); err != nil {
		t.Fatal(err)
	}
	second := startServer(t, program, "", "--data", data)
	name := second.grant()
	first.ends(74, "it is gone")
	if again := second.grant(); again == name {
		t.Errorf("%s was granted twice", name)
	}
}

// A full disk ends the server. Leases that it granted before exist after a restart, and the call
// that did not fit is refused.
func TestServeWithAFullDisk(t *testing.T) {
	program := clitest.Build(t, "")
	data := filepath.Join(t.TempDir(), "data")
	// Blocks of 512 bytes. The shell ignores SIGXFSZ, so writes fail with EFBIG.
	s := startServer(t, program, "trap '' XFSZ; ulimit -f 128", "--data", data)
	held := s.grant()
	s.fill()
	s.ends(74, "file too large")

	again := startServer(t, program, "", "--data", data)
	if other := again.grant(); other == held {
		t.Errorf("%s was granted twice", held)
	}
}

// The same with a full file system.
func TestServeOnAFullFileSystem(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, clitest.Build(t, ""), aloneOn(t, "256k", data), "--data", data)
	s.grant()
	s.fill()
	s.ends(74, "no space left on device")
}

// aloneOn returns a shell command that starts a program with its own file system of the given size
// at data. If a process cannot get a file system of its own, aloneOn skips the test.
func aloneOn(t *testing.T, size, data string) string {
	t.Helper()
	alone := `unshare --user --map-root-user --mount sh -c 'mount -t tmpfs -o size=` + size + ` none "$0" && exec "$@"' "` + data + `"`
	if out, err := exec.Command("sh", "-c", alone+" true").CombinedOutput(); err != nil {
		t.Skipf("no file system of its own for a process here: %v: %s", err, out)
	}
	return "exec " + alone + ` "$@"`
}

// Backups at the same time do not fill the disk: each is made if it leaves the store its room, and
// is refused otherwise.
func TestBackupsAtOnce(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, clitest.Build(t, ""), aloneOn(t, "64m", data), "--data", data, "--pool", "large=40000")
	if status, body, err := s.call(leaseapi.PathAcquire + "?type=large&count=40000"); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s, %v", status, body, err)
	}
	for i := range 3 {
		made := s.backups(24)
		if i == 0 && len(made) == 0 { // later the earlier copies may still take room
			t.Error("none was made")
		}
		for _, body := range made {
			body.Close()
		}
	}
}

// backups asks for n backups at once, and returns the bodies of those that were made. They are not
// read yet, since a copy takes room until it is read. The other backups must be refused for lack of
// room.
func (s *testServer) backups(n int) (made []io.Closer) {
	s.t.Helper()
	answers := make(chan *http.Response, n)
	for range n {
		go func() {
			resp, err := http.Post(s.url+leaseapi.PathBackup, "", nil)
			if err != nil {
				s.t.Error(err)
			}
			answers <- resp
		}()
	}
	for range n {
		switch resp := <-answers; {
		case resp == nil:
		case resp.StatusCode == http.StatusOK:
			made = append(made, resp.Body)
		default:
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if !strings.Contains(string(body), "too little room") {
				s.t.Errorf("%d %s, %v", resp.StatusCode, body, err)
			}
		}
	}
	return made
}

// fill makes the server remember request ids until no room is left. An id takes room that is not
// freed. The call that does not fit must be refused.
func (s *testServer) fill() {
	s.t.Helper()
	status := http.StatusOK
	for i := 0; status == http.StatusOK; i++ {
		resp, err := http.Post(s.url+leaseapi.PathRelease, "", strings.NewReader(fmt.Sprintf(`{"request_ids":["%0128d"]}`, i)))
		if err != nil {
			s.t.Fatalf("the call that did not fit: %v\n%s", err, s.log)
		}
		resp.Body.Close()
		status = resp.StatusCode
	}
	if status != http.StatusServiceUnavailable {
		s.t.Errorf("the call that did not fit got %d", status)
	}
}

// A damaged store is refused with a message that says what is damaged and where, and is not
// changed.
func TestServeRefusesADamagedStore(t *testing.T) {
	program := clitest.Build(t, "")
	data := filepath.Join(t.TempDir(), "data")
	s := startServer(t, program, "", "--data", data)
	resp, err := http.Post(s.url+leaseapi.PathAcquire, "", strings.NewReader(`{"type":"q","owner":"somebody"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	s.cmd.Process.Signal(syscall.SIGTERM)
	<-s.exit
	path := filepath.Join(data, "leases.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.ReplaceAll(string(whole), "somebody", "sameb0dy")
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--pool", "q=1", "--data", data).CombinedOutput()
	for _, want := range []string{path, `bucket "leasectl"`, `key "lq-0"`, "checksum"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s does not say %q", out, want)
		}
	}
	if after, _ := os.ReadFile(path); clitest.ExitCode(err) != 74 || strings.Contains(string(out), "goroutine") || string(after) != changed {
		t.Errorf("exit code %d, file changed %v\n%s", clitest.ExitCode(err), string(after) != changed, out)
	}
}
