package browsertest

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	pictures   = flag.String("pictures", "", "folder for the pictures of the README; empty: they are made and not kept")
	pictureFor = flag.Duration("pictures-after", 0, "how long jobs come and go before the pictures, so that the charts have something to show")
)

// TestPictures makes the pictures of the README from a server that jobs use: its page of a pool, as
// the browser lays it out, and what a job prints that waits. Each is an SVG whose text is text,
// one for a light ground and one for a dark one.
func TestPictures(t *testing.T) {
	dir := *pictures
	if dir == "" {
		dir = t.TempDir()
	}
	s := serve(t, "install=4")
	stop := s.load("install", 4)
	defer stop()
	w := open(t, s, 1120).signIn(readToken)
	w.visit("/ui/pools/install")
	w.shows("#live", "Live")
	if *pictureFor > 0 {
		time.Sleep(*pictureFor)
	}
	for end := time.Now().Add(10 * time.Minute); s.waiting("install") != 4; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the queue never has four jobs")
		}
	}
	w.await("four jobs to wait", func() bool { return eval[int](w, `document.querySelectorAll("#queue tbody tr").length`) == 4 })
	for _, scheme := range []string{"light", "dark"} {
		w.scheme(scheme)
		keepPicture(t, dir, "page-"+scheme+".svg", eval[string](w, pageToSVG), "full", "The last hour", "Why it waits", "Held for", "ci.example")
	}
	lines := s.waitingJob(stop)
	for scheme, colours := range terminalColours {
		keepPicture(t, dir, "terminal-"+scheme+".svg", terminalSVG(lines, colours), "$ leasectl exec", "leasectl: waiting ", "leasectl: acquired install-", "Install complete!", "leasectl: released install-")
	}
}

// keepPicture writes a picture, which must be well-formed and have texts.
func keepPicture(t *testing.T, dir, name, svg string, texts ...string) {
	t.Helper()
	if err := wellFormed(svg); err != nil {
		t.Errorf("%s: %v\n%s", name, err, svg)
	}
	for _, want := range texts {
		if !strings.Contains(svg, want) {
			t.Errorf("%s has no %q\n%s", name, want, svg)
		}
	}
	if strings.Contains(svg, "<image") {
		t.Errorf("%s has an image in it: want text and shapes", name)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(svg), 0o666); err != nil {
		t.Fatal(err)
	}
}

// meanHold is how long a job of the load holds its lease on average, with -pictures-after.
const meanHold = 50 * time.Second

// load makes jobs take leases of a pool, so many that some wait most of the time. Without
// -pictures-after, there are twice as many as leases, and they hold until stop is called. Otherwise
// more come and others go. stop ends the load, in the order of the queue.
func (s *server) load(typ string, leases int) (stop func()) {
	end, jobs := make(chan struct{}), new(sync.WaitGroup)
	after := func(d time.Duration) <-chan time.Time {
		if *pictureFor == 0 {
			return nil
		}
		return time.After(d)
	}
	kinds := []string{"install-aws", "install-gcp", "upgrade", "nightly"}
	build := 1800
	job := func() {
		build++
		n, kind := build, kinds[rand.IntN(len(kinds))]
		jobs.Go(func() {
			id, owner := fmt.Sprintf("%s-%d", typ, n), fmt.Sprintf("https://ci.example/job/%s/%d", kind, n)
			answer := s.ask(typ, id, owner)
			for strings.HasPrefix(answer, "202") {
				answer = s.ask(typ, id, owner)
			}
			var reply struct{ Leases []lease }
			if _, body, _ := strings.Cut(answer, " OK "); json.Unmarshal([]byte(body), &reply) != nil || len(reply.Leases) == 0 {
				return // the server has stopped
			}
			l := reply.Leases[0]
			s.tell("/lease/renew", fmt.Sprintf(`{"leases":[{"name":%q,"generation":%d}]}`, l.Name, l.Generation))
			select {
			case <-end:
			case <-after(meanHold/2 + rand.N(meanHold)):
			}
			s.tell("/lease/release", fmt.Sprintf(`{"names":[%q]}`, l.Name))
		})
	}
	for range 2 * leases {
		job()
	}
	jobs.Go(func() {
		for {
			select {
			case <-end:
				return
			case <-after(meanHold/4 + rand.N(meanHold/3)): // nine jobs in the time in which ten can end
			}
			for range 1 + rand.IntN(2) {
				job()
			}
		}
	})
	return sync.OnceFunc(func() {
		close(end)
		jobs.Wait()
	})
}

// tell sends a request as a job does. At the end of a test it may fail.
func (s *server) tell(path, body string) {
	req, err := http.NewRequest("POST", s.url+path, strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer "+jobToken)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// waiting returns how many jobs wait.
func (s *server) waiting(typ string) int {
	s.t.Helper()
	req, err := http.NewRequest("GET", s.url+"/pools", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+readToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var pools struct {
		Pools []struct {
			Type    string
			Waiting int
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&pools); err != nil {
		s.t.Fatal(err)
	}
	for _, p := range pools.Pools {
		if p.Type == typ {
			return p.Waiting
		}
	}
	s.t.Fatalf("no pool %s: %+v", typ, pools)
	return 0
}

// waitingJob runs a job that must wait, and returns its command line and what it prints. It ends the
// load when the job has said that it waits, or, with -pictures-after, lets it wait for its turn.
func (s *server) waitingJob(endLoad func()) []string {
	s.t.Helper()
	dir := s.t.TempDir()
	files := map[string]string{
		"token":             jobToken,
		"openshift-install": "#!/bin/sh\necho 'level=info msg=\"Creating infrastructure resources...\"'\necho 'level=info msg=\"Install complete!\"'\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			s.t.Fatal(err)
		}
	}
	args := []string{"exec", "--type", "install", "--", "openshift-install", "create", "cluster"}
	cmd := exec.Command(*program, args...)
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "TMPDIR=" + dir, "LEASECTL_STATE_DIR=" + dir, "LEASE_PROXY_SERVER_URL=" + s.url,
		"LEASECTL_TOKEN_FILE=" + filepath.Join(dir, "token"), "LEASECTL_OWNER=https://ci.example/job/install-aws/2041"}
	out := new(logText)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	if *pictureFor == 0 {
		for end := time.Now().Add(patience); !strings.Contains(out.String(), "waiting ") && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		endLoad()
	}
	if err := cmd.Wait(); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	return append([]string{"$ leasectl " + strings.Join(args, " ")}, strings.Split(strings.TrimSpace(out.String()), "\n")...)
}
