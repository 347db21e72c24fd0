package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// The line about a waiting acquire names the page that shows its place, if a browser can reach the
// proxy.
func TestWaitLineNamesThePage(t *testing.T) {
	program := clitest.Build(t, "")
	s := startServer(t, program, "")
	s.grant()
	s.grant()
	var stderr clitest.LiveLog
	cmd := exec.Command(program, "acquire", "--type", "q", "--handle", t.TempDir()+"/h")
	cmd.Env = append(os.Environ(), "LEASE_PROXY_SERVER_URL="+s.url, "LEASECTL_STATE_DIR="+t.TempDir(), "LEASECTL_OWNER=job-1")
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Signal(syscall.SIGTERM)
	address := regexp.MustCompile(`waiting [0-9]s for a lease of type "q": place 1 of 1, .*; (` + s.url + `/ui/requests/[A-Z0-9]+)\n`)
	clitest.Await(t, &stderr, "the line", func() bool { return address.MatchString(stderr.String()) })
	resp, err := http.Get(address.FindStringSubmatch(stderr.String())[1])
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || !bytes.Contains(page, []byte("at place <strong>1</strong> of 1")) || !strings.Contains(string(page), "job-1") {
		t.Errorf("%s, %v:\n%s", resp.Status, err, page)
	}
}
