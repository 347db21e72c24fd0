package campaign

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

var (
	identitiesRounds = flag.Int("identities-rounds", 5, "rounds of TestIdentitiesCampaign: 1000, for a whole campaign")
	identitiesSeed   = flag.Uint64("identities-seed", 0, "seed of TestIdentitiesCampaign; 0 takes one")
)

// TestIdentitiesCampaign lets jobs of two callers run on machines that they share, at two servers with stores of their own, each
// of which has several URLs. A part of the jobs is killed. Beside them clean-up jobs of both callers run: recover, release --all
// and release --scope test.
//
//	go test -run TestIdentitiesCampaign -identities-rounds 1000 -timeout 2h ./cmd/leasectl/campaign
//
// It checks:
//   - no name is held by two, and each job that nobody killed or cleaned away succeeds;
//   - what is left of a round is known on its machine: recover with the token of each caller, and releases of the handles and of
//     the list, leave nothing at the servers, and no file.
func TestIdentitiesCampaign(t *testing.T) {
	t.Parallel()
	seed := *identitiesSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	c := newIdentities(t)
	codes := make(map[string]int)
	for n := range *identitiesRounds {
		r := &identitiesRound{identities: c, n: n, random: rand.New(rand.NewPCG(seed, uint64(n))), dir: c.Path(fmt.Sprint("r", n)), codes: codes}
		if r.run(); t.Failed() {
			t.Logf("round %d:\n%s", n, strings.Join(r.said, "\n"))
			break
		}
		if err := os.RemoveAll(r.dir); err != nil {
			t.Error(err)
		}
	}
	t.Log(codes)
}

// identities are the servers of the campaign.
type identities struct {
	*world
	servers [2]identitiesServer
}

type identitiesServer struct {
	urls   []string
	client *proxyclient.Client // of alice
}

func newIdentities(t *testing.T) *identities {
	c := &identities{world: newBareWorld(t, clitest.Build(t, ""))}
	t.Cleanup(c.NoneLeft)
	auth := clitest.WriteCallers(t, c.Dir)
	for i := range c.servers {
		s := &c.servers[i]
		socket, log := c.Path(fmt.Sprint("s", i)), new(clitest.LiveLog)
		server := exec.Command(c.Program, "serve", "--listen", "127.0.0.1:0", "--socket", socket, "--data", c.Path(fmt.Sprint("data", i)), "--auth", auth, "--pool", "q=8", "--pool", "other=8")
		server.Stderr = log
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			server.Process.Signal(syscall.SIGTERM)
			server.Wait()
			if t.Failed() {
				t.Logf("server %d:\n%s", i, log)
			}
		})
		listens := regexp.MustCompile(`listening on http://127\.0\.0\.1:(\d+)`)
		clitest.Await(t, log, "the server to listen", func() bool {
			return listens.MatchString(log.String()) && strings.Contains(log.String(), "listening on unix:")
		})
		port := listens.FindStringSubmatch(log.String())[1]
		urls := []string{"http://127.0.0.1:%s", "127.0.0.1:%s/", "HTTP://127.0.0.1:%s//"}
		if _, err := net.LookupHost("localhost"); err == nil {
			urls = append(urls, "HTTP://localhost:%s//", "http://LocalHost:%s")
		}
		for _, url := range urls {
			s.urls = append(s.urls, fmt.Sprintf(url, port))
		}
		s.urls = append(s.urls, "unix://"+socket, "unix://"+c.Dir+"//"+filepath.Base(socket))
		var err error
		if s.client, err = proxyclient.New(proxyclient.Options{URL: "unix://" + socket, TokenFile: c.Path("alice.token")}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.client.Close)
	}
	return c
}

// left returns how many leases and waiting requests a server has.
func (s *identitiesServer) left() (n int) {
	pools, err := s.client.Pools(context.Background())
	if err != nil {
		return -1
	}
	for _, p := range pools {
		n += p.InUse + p.Waiting
	}
	return n
}

// identitiesRound is one round, with state directories and a list of its own.
type identitiesRound struct {
	*identities
	n      int
	random *rand.Rand
	dir    string

	mu    sync.Mutex
	codes map[string]int // how often each command ended with each code
	said  []string
}

// identitiesJob is a job: who runs it where.
type identitiesJob struct {
	token  string // alice, alice-2 or bob
	state  string
	server int
	owner  string
	handle string
	kind   string
	script string
	kill   time.Duration // after which it is killed; 0: it is not
	delay  time.Duration // after which it begins
	hold   time.Duration // for which its command has the lease, in an exec
	codes  []int         // allowed; nil: any
	urls   [2]string     // that it uses, in its first and its other commands
}

func one[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// stolen is the exit code of a command whose lease's name somebody else uses.
const stolen = 98

// holding is the command of an exec: it locks the name of its lease.
func (r *identitiesRound) holding(j *identitiesJob) string {
	mode := "-x"
	if j.kind == "shared" {
		mode = "-s"
	}
	return fmt.Sprintf(`exec 8>>'%s/lock%d-'"$LEASED_RESOURCE"; lockfd 8 %s || exit %d; sleep %.3f 8>&-`, r.dir, j.server, mode, stolen, j.hold.Seconds())
}

// job draws a job.
func (r *identitiesRound) job(i int) *identitiesJob {
	j := &identitiesJob{
		token: one(r.random, "alice", "alice-2", "bob"), state: fmt.Sprint("state", min(1, r.random.IntN(4)/3)), server: r.random.IntN(2), delay: time.Duration(r.random.IntN(60)) * time.Millisecond,
		hold:  time.Duration(10+r.random.IntN(90)) * time.Millisecond,
		owner: fmt.Sprintf("job-%d-%d", r.n, i), handle: fmt.Sprintf("h%d", i), codes: []int{0, exitUnreachable}, // on a slow machine
	}
	j.urls = [2]string{one(r.random, r.servers[j.server].urls...), one(r.random, r.servers[j.server].urls...)}
	take := "--type " + one(r.random, "q", "other") + " --wait-timeout 1m"
	const second = `LEASE_PROXY_SERVER_URL=$OTHER_URL; `
	switch kind := r.random.IntN(7); kind {
	case 0, 1:
		j.kind = "exec"
		j.script = fmt.Sprintf(`exec leasectl exec %s %s --grace-period 1s --parent-death KILL -- sh -c "$HOLDING"`, take, one(r.random, "", "--handle "+j.handle))
	case 2:
		j.kind = "shared"
		j.script = fmt.Sprintf(`exec leasectl exec %s --shared S-%s --grace-period 1s --parent-death KILL -- sh -c "$HOLDING"`, take, j.token)
	case 3, 4:
		j.kind = "acquire"
		j.script = fmt.Sprintf(`leasectl acquire %s --handle %[2]s || exit; %[3]s %[4]s && leasectl release --handle %[2]s`, take, j.handle, second,
			one(r.random, ":", "leasectl renew --ttl 1h --handle "+j.handle, "leasectl reacquire --handle "+j.handle, "leasectl status --handle "+j.handle))
	case 5:
		j.kind = "list"
		j.script = fmt.Sprintf(`leasectl acquire %s --scope test --handle %s || exit; sleep 0.03; %s leasectl release --scope test`, take, j.handle, second)
		j.codes = append(j.codes, exitFailure) // for other leases of the list
	default:
		j.kind = "keeper"
		j.script = fmt.Sprintf(`leasectl acquire %s --handle %s --owner-pid $$ || exit; sleep 0.02`, take, j.handle)
	}
	if r.random.IntN(3) == 0 {
		j.kill, j.codes = time.Duration(5+r.random.IntN(80))*time.Millisecond, nil
	}
	return j
}

// cleaner draws a clean-up job. targets are the owners of others.
func (r *identitiesRound) cleaner(targets []*identitiesJob) *identitiesJob {
	j := r.job(99)
	j.kill, j.codes = 0, nil
	scripts := []string{"leasectl recover", "leasectl release --scope test"}
	if len(targets) > 0 {
		scripts = append(scripts, "leasectl release --all --owner "+one(r.random, targets...).owner)
	}
	j.script = one(r.random, scripts...)
	j.kind = "clean-up: " + strings.Join(strings.Fields(j.script)[1:min(3, len(strings.Fields(j.script)))], " ")
	return j
}

// do runs a job.
func (r *identitiesRound) do(j *identitiesJob) (code int) {
	time.Sleep(j.delay)
	cmd := exec.Command("sh", "-c", `leasectl() { "$LEASECTL" "$@"; }; `+strings.Replace(j.script, "exec leasectl", `exec "$LEASECTL"`, 1))
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "LEASECTL="+r.Program, "LEASECTL_STATE_DIR="+filepath.Join(r.dir, j.state), "SHARED_DIR="+r.dir, "LEASECTL_OWNER="+j.owner,
		"LEASE_PROXY_SERVER_URL="+j.urls[0], "OTHER_URL="+j.urls[1], "LEASECTL_TOKEN_FILE="+r.Path(j.token+".token"), "HOLDING="+r.holding(j))
	out, err := os.CreateTemp(r.dir, "out")
	if err != nil {
		r.T.Error(err)
		return -1
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		r.T.Error(err)
		return -1
	}
	if j.kill > 0 { // the whole step, but what has a group of its own
		defer time.AfterFunc(j.kill, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }).Stop()
	}
	defer time.AfterFunc(tooLong, func() {
		r.T.Errorf("%s does not end", j.script)
		cmd.Process.Kill()
	}).Stop()
	code = clitest.ExitCode(cmd.Wait())
	said, _ := os.ReadFile(out.Name())
	os.Remove(out.Name())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.codes[fmt.Sprintf("%s: %d", j.kind, code)]++
	r.said = append(r.said, fmt.Sprintf("%s of %s at %d, %v, %s, killed after %v: %s\nexit code %d\n%s", j.owner, j.token, j.server, j.urls, j.state, j.kill, j.script, code, said))
	return code
}

// run runs the jobs of a round and its clean-up jobs, and then gives back what is left.
func (r *identitiesRound) run() {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		r.T.Fatal(err)
	}
	var jobs []*identitiesJob
	for i := range 3 + r.random.IntN(3) {
		jobs = append(jobs, r.job(i))
	}
	// Others end what is left of the killed ones, or, in every third round, of any.
	targets := slices.Clone(jobs)
	rough := r.random.IntN(3) == 0
	if !rough {
		targets = slices.DeleteFunc(targets, func(j *identitiesJob) bool { return j.kill == 0 })
	}
	var all sync.WaitGroup
	for _, j := range jobs {
		all.Go(func() {
			if code := r.do(j); j.codes != nil && !rough && !slices.Contains(j.codes, code) || code == stolen && !rough {
				r.T.Errorf("%s: %s: exit code %d", j.owner, j.script, code)
			}
		})
	}
	for range 1 + r.random.IntN(2) {
		j := r.cleaner(targets)
		all.Go(func() { r.do(j) })
	}
	all.Wait()
	r.settle(jobs)
}

// settle gives back what is left, with what the machines know of it, and checks that it was all.
func (r *identitiesRound) settle(jobs []*identitiesJob) {
	must := func(token, state string, server int, script string, codes ...int) {
		r.T.Helper()
		j := &identitiesJob{token: token, state: state, server: server, owner: "settler", kind: "settle", script: script, urls: [2]string{one(r.random, r.servers[server].urls...), ""}}
		code := r.do(j)
		for range 3 {
			if code == exitUnreachable { // on a slow machine
				code = r.do(j)
			}
		}
		if !slices.Contains(append(codes, 0), code) {
			r.T.Errorf("settle: %s with the token of %s in %s: exit code %d", script, token, state, code)
		}
	}
	for _, state := range []string{"state0", "state1"} {
		must("alice", state, r.random.IntN(2), "leasectl recover", exitFailure) // it leaves what bob had
		must("bob", state, r.random.IntN(2), "leasectl recover")
	}
	for _, j := range jobs {
		must(j.token, j.state, j.server, "leasectl release --handle "+j.handle)
		for _, handle := range r.handlesIn(j.state) {
			must(r.takerOf(handle), j.state, j.server, "leasectl release --handle "+handle)
		}
	}
	for server := range r.servers {
		for _, token := range []string{"alice", "bob"} {
			must(token, "state0", server, "leasectl release --scope test", exitFailure)
		}
	}
	for server := range r.servers {
		clitest.Await(r.T, r, fmt.Sprintf("round %d: nothing to be held or waited for at server %d", r.n, server), func() bool { return r.servers[server].left() == 0 })
	}
	clitest.Await(r.T, r, fmt.Sprintf("round %d: no file to be left", r.n), func() bool { return r.left() == "" }) // by keepers that end
}

// String is what the commands of the round said, and which file is left.
func (r *identitiesRound) String() string { return strings.Join(append(r.said, r.left()), "\n") }

// handlesIn returns the handles that nobody named.
func (r *identitiesRound) handlesIn(state string) (paths []string) {
	handles, _ := lockfile.Handles(filepath.Join(r.dir, state))
	for _, h := range handles {
		if record, err := h.Read(); err == nil && len(record.Leases) > 0 {
			paths = append(paths, h.Path())
		}
	}
	return paths
}

// takerOf returns a token of the caller who took the lease of a handle.
func (r *identitiesRound) takerOf(path string) string {
	h, err := lockfile.OpenHandle(path)
	if err != nil {
		r.T.Fatal(err)
	}
	record, _ := h.Read()
	return record.Taker.Name
}

// left returns a file that is left; "" is none but locks and keys, and entries of requests without an answer, which stay for a while.
func (r *identitiesRound) left() (file string) {
	err := filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		name := filepath.Base(path)
		if err != nil || d.IsDir() || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "lock") || name == "key.cell" || name == "leases.lock" {
			return err
		}
		text, _ := os.ReadFile(path)
		if filepath.Base(filepath.Dir(path)) == "intents" {
			var entry struct {
				TTL int64 `json:"ttl_ns"`
			}
			if json.Unmarshal(text, &entry) == nil && entry.TTL == 0 {
				return nil
			}
		}
		if name == "leases" && len(text) == 0 {
			return nil
		}
		file = fmt.Sprintf("%s: %s", path, text)
		return nil
	})
	if err != nil {
		return err.Error() // of a file that a keeper has just removed
	}
	return file
}
