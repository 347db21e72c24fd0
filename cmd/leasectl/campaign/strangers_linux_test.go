package campaign

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/proxyserver/auth/authtest"
	"github.com/leasectl/leasectl/leaseapi"
)

var strangersFor = flag.Duration("strangers-for", 0, "how long TestStrangersCampaign lasts for each kind of stranger, with a bound of a second for each call: 1m, for a whole campaign; 0: all kinds together, for two seconds")

const (
	strangers = 200
	// strangersFiles is the server's limit of open files, so that strangers need few connections.
	strangersFiles  = 160
	strangersMemory = 512 << 10 // in KiB
	// In a storm of shortStorm, so many percent of the calls are answered.
	shortStorm   = 2 * time.Second
	shortPercent = 50
	// calmly is how long a call takes at most where there is no storm, on a machine that can tell something.
	calmly         = 250 * time.Millisecond
	callerSecret   = "secret-of-a-caller-0123"
	secretOfOne    = "secret-of-one-pool-0123"
	secretOfAll    = "secret-of-all-pools-0123"
	besiegedTokens = `tokens:
- {name: caller, secret_file: token}
- {name: one, secret_file: one, pools: [mem]}
- {name: all, secret_file: all}
`
	besiegedPools = `resources:
- {type: q, names: [q-0, q-1, q-2, q-3]}
- {type: mem, units: 16777216}
`
)

// strangerKinds are what a stranger sends. It sends no more, reads nothing, and stays.
func strangerKinds(t *testing.T, issuer *authtest.Issuer) map[string]func() string {
	madeUp, err := authtest.GenerateKey("made-up")
	if err != nil {
		t.Fatal(err)
	}
	claims := issuer.Claims(nil)
	post := func(path string, size int, body, header string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n%s\r\n%s", path, size, header, body)
	}
	always := func(text string) func() string { return func() string { return text } }
	return map[string]func() string{
		"idle":            always(""),
		"half a header":   always("POST /lease/acquire?type=q HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + strings.Repeat("x", 10_000)),
		"a stalled login": always(post("/ui/login", 100, "a", "")),
		"a stalled call":  always(post(leaseapi.PathRelease, 100, "a", "")),
		"a large login":   always(post("/ui/login", leaseapi.MaxBody, strings.Repeat("x", leaseapi.MaxBody-1), "")),
		"a large call":    always(post(leaseapi.PathRenew, leaseapi.MaxBody, strings.Repeat("x", leaseapi.MaxBody-1), "Authorization: Bearer another-secret-0123456789\r\n")),
		"pages":           always(strings.Repeat("GET /ui/login HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 100)),
		"requests":        always(strings.Repeat("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 100)),
		"an unknown key": func() string {
			k := madeUp
			k.ID = strconv.FormatUint(rand.Uint64(), 36)
			token, err := k.Token(claims)
			if err != nil {
				t.Error(err)
			}
			return post(leaseapi.PathAcquire+"?type=q", 100, "a", "Authorization: Bearer "+token+"\r\n")
		},
	}
}

// TestStrangersCampaign lets strangers do their worst against a server that has room for few
// connections, with 200 connections at once. Meanwhile callers go on, on the wire of version 1, on
// ours and on the page: 95 % of their calls are answered within a second (half of them at all in a short
// run), and a lease with a TTL of 20 s stays, if the machine is quick enough; and the server takes less
// than 512 MiB.
//
//	go test -run TestStrangersCampaign -strangers-for 1m -timeout 1h ./cmd/leasectl/campaign
func TestStrangersCampaign(t *testing.T) {
	t.Parallel()
	issuer, stop := authtest.Serve()
	defer stop()
	good, err := authtest.GenerateKey("good")
	if err != nil {
		t.Fatal(err)
	}
	issuer.Publish(good)
	kinds := strangerKinds(t, issuer)
	if *strangersFor == 0 {
		s := newBesieged(t, issuer)
		all := slices.Collect(maps.Values(kinds))
		s.storm(t, shortStorm, clitest.Patience, shortPercent, s.strangers(func() string { return all[rand.IntN(len(all))]() }))
		return
	}
	for name, says := range kinds {
		t.Run(name, func(t *testing.T) {
			s := newBesieged(t, issuer)
			s.storm(t, *strangersFor, time.Second, 95, s.strangers(says))
		})
	}
}

// besieged is a server with tokens and an issuer, on TCP, under strangersFiles.
type besieged struct {
	*clitest.World
	address string
	server  *exec.Cmd
	page    http.CookieJar // has a session
}

// newBesieged starts one; a nil issuer is none.
func newBesieged(t *testing.T, issuer *authtest.Issuer) *besieged {
	t.Helper()
	s := &besieged{World: clitest.NewBareWorld(t, clitest.Build(t, ""))}
	rules := besiegedTokens
	if issuer != nil {
		rules += fmt.Sprintf("issuers: [{issuer: %q, audience: leasectl, rules: [{claims: {repository: 'acme/*'}, name: '{repository}'}]}]\n", issuer.URL)
	}
	for name, text := range map[string]string{"auth.yaml": rules, "token": callerSecret, "one": secretOfOne, "all": secretOfAll, "pools.yaml": besiegedPools} {
		if err := os.WriteFile(s.Path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.server = exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, strangersFiles),
		s.Program, "serve", "--listen", "127.0.0.1:0", "--config", s.Path("pools.yaml"), "--auth", s.Path("auth.yaml"), "--data", s.Path("data"))
	s.server.Stderr = s.Log
	if err := s.server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.server.Process.Signal(syscall.SIGINT)
		if err := s.server.Wait(); err != nil {
			t.Errorf("serve: %v\n%s", err, s.Log)
		}
		s.NoneLeft()
	})
	url := ""
	s.Await("the proxy to listen", func() bool {
		url = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(s.Log.String())
		return url != ""
	})
	s.address = strings.TrimPrefix(url, "http://")
	s.Env = append(os.Environ(), "LEASECTL_STATE_DIR="+s.Path("state"), "LEASECTL_OWNER=job-1", "LEASE_PROXY_SERVER_URL="+url, "LEASECTL_TOKEN_FILE="+s.Path("token"))
	s.page = s.signIn(t)
	return s
}

func (s *besieged) signIn(t *testing.T) http.CookieJar {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Timeout: clitest.Patience}
	resp, err := client.PostForm("http://"+s.address+"/ui/login", url.Values{"token": {callerSecret}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("sign in: %s", resp.Status)
	}
	return jar
}

// storm lets callers call while attackers act, for a time. A call that takes longer than patience was not
// answered. The same calls of another server, without attackers, say what the machine can do: if they have
// all they want, so many percent of the calls must be answered, and the job keeps its lease.
func (s *besieged) storm(t *testing.T, lasts, patience time.Duration, percent int, attackers []func(context.Context)) {
	calm := newBesieged(t, nil)
	ends, calmEnds := s.hold(t), calm.hold(t)

	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, attack := range attackers {
		wg.Go(func() { attack(ctx) })
	}
	var ours, calms tally
	for begin := time.Now(); ours.all == 0 || time.Since(begin) < lasts; {
		s.callAll(patience, &ours)
		calm.callAll(min(patience, calmly), &calms)
		if missed := ours.all - ours.answered; missed > 100 && missed > ours.answered {
			break // it would last long
		}
	}
	leave()
	wg.Wait()

	err, calmErr := ends(), calmEnds()
	peak := s.peak(t)
	t.Logf("%v; without a storm %v; the server took %d MiB", &ours, &calms, peak>>10)
	if peak > strangersMemory {
		t.Errorf("the server took %d MiB", peak>>10)
	}
	if calmErr != nil || calms.answered < calms.all {
		t.Logf("the machine is too slow to tell more: without a storm: %v", cmp.Or(calmErr, calms.last))
		return
	}
	if ours.answered*100 < ours.all*percent {
		t.Errorf("%v", &ours)
	}
	if err != nil {
		t.Errorf("the job with a lease: %v", err)
	}
}

// tally counts calls.
type tally struct {
	all, answered int
	last          error
}

func (y *tally) String() string {
	if y.last == nil {
		return fmt.Sprintf("%d of %d calls were answered", y.answered, y.all)
	}
	return fmt.Sprintf("%d of %d calls were answered; the last error: %v", y.answered, y.all, y.last)
}

// callAll makes a call of each kind.
func (s *besieged) callAll(patience time.Duration, y *tally) {
	for name, call := range map[string]func(*http.Client) error{"version 1": s.callVersion1, "ours": s.callOurs, "page": s.callPage} {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
		y.all++
		if err := call(client); err != nil {
			y.last = fmt.Errorf("%s: %w", name, err)
		} else {
			y.answered++
		}
	}
}

// hold starts a job that has a lease, and returns once it has. The job ends when ends is called, which
// returns an error if it lost its lease.
func (s *besieged) hold(t *testing.T) (ends func() error) {
	job := s.Command("exec", "--type", "q", "--ttl", "20s", "--quiet", "--", "sh", "-c", `echo > held; n=0; until [ -e done ] || [ $n = 6000 ]; do sleep 0.1; n=$((n+1)); done`)
	var said clitest.LiveLog
	job.Stderr = &said
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	s.Await("a lease", func() bool { return clitest.Exists(s.Path("held")) })
	return func() error {
		if err := os.WriteFile(s.Path("done"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := job.Wait(); err != nil {
			return fmt.Errorf("%w\n%s", err, &said)
		}
		return nil
	}
}

// strangers returns as many of them as come at once.
func (s *besieged) strangers(says func() string) []func(context.Context) {
	return slices.Repeat([]func(context.Context){func(ctx context.Context) { s.stranger(ctx, says) }}, strangers)
}

// stranger comes again and again.
func (s *besieged) stranger(ctx context.Context, says func() string) {
	for ctx.Err() == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.address)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			io.WriteString(conn, says())
			conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			conn.Read(make([]byte, 1)) // until it is answered, or closed
			stop()
			conn.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// callVersion1 takes a lease and gives it back, as a client of version 1.
func (s *besieged) callVersion1(client *http.Client) error {
	text, err := s.call(client, "POST", leaseapi.PathAcquire+"?type=q", "")
	if err != nil {
		return err
	}
	var got struct{ Names []string }
	if err := json.Unmarshal(text, &got); err != nil {
		return err
	}
	body, err := json.Marshal(got)
	if err != nil {
		return err
	}
	_, err = s.call(client, "POST", leaseapi.PathRelease, strings.ToLower(string(body[:8]))+string(body[8:]))
	return err
}

func (s *besieged) callOurs(client *http.Client) error {
	if _, err := s.call(client, "GET", leaseapi.PathPools, ""); err != nil {
		return err
	}
	_, err := s.call(client, "GET", leaseapi.PathWhoami, "")
	return err
}

func (s *besieged) callPage(client *http.Client) error {
	client.Jar = s.page
	_, err := s.call(client, "GET", "/ui/pools/q", "")
	return err
}

func (s *besieged) call(client *http.Client, method, target, body string) ([]byte, error) {
	req, err := http.NewRequest(method, "http://"+s.address+target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+callerSecret)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s %.200s", method, target, resp.Status, text)
	}
	return text, err
}

// peak returns the most memory that the server took, in KiB.
func (s *besieged) peak(t *testing.T) (kibibytes int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.server.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(text); m != nil {
		kibibytes, _ = strconv.Atoi(string(m[1]))
	}
	if kibibytes == 0 {
		t.Error("the server's peak of memory is not known")
	}
	return kibibytes
}
