package campaign

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/etcd/etcdtest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/postgres/pgtest"
	"github.com/leasectl/leasectl/leaseapi"
)

var (
	locksJobs = flag.Int("locks-jobs", 80, "jobs of each part of TestLocksCampaign: 2000, for a whole campaign")
	locksSeed = flag.Uint64("locks-seed", 0, "seed of TestLocksCampaign; 0 takes one")
)

// TestLocksCampaign lets jobs ask for what people lock: a key to read or to write, a certain name,
// units, leases of several pools at once. An operator reserves names and gives them back. Some jobs
// are killed with their command, and the server is killed and started again.
//
// The commands judge: each locks, with flock(2), the files of its names alone, and that of its key
// shared or alone. None of them ever finds a file locked, nor does the operator that of a reserved
// name. A job of several pools has leases of all of them. All living jobs run, no pool has more in
// use than it has, and in the end nothing is held.
//
//	go test -run TestLocksCampaign -locks-jobs 2000 -timeout 1h ./cmd/leasectl/campaign
func TestLocksCampaign(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	seed := *locksSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	for _, store := range []string{"a directory", "etcd", "PostgreSQL"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			t.Logf("seed %d, %d jobs", seed, *locksJobs)
			args := []string{"--pool", "db=4", "--pool", "acc=3", "--config", locksConfig(t)}
			database := ""
			switch store {
			case "etcd":
				database = etcdtest.Shared(t).URL("locks")
			case "PostgreSQL":
				database = pgtest.Start(t).URL()
			}
			if database != "" {
				args = append(args, "--data", database, "--leader-ttl", replicaTTL.String(), "--advertise", "http://127.0.0.1:1")
			}
			c := &locksCampaign{
				t: t, dir: clitest.ShortDir(t), random: rand.New(rand.NewPCG(seed, 2)),
				server: clitest.NewDurableServer(t, program, args...), atOnce: make(chan struct{}, 40),
			}
			c.run()
			t.Logf("%d jobs ran, %d were killed; %d reservations", c.ran, c.killed, c.reserved)
			if c.ran < *locksJobs/2 || c.killed == 0 || c.reserved == 0 {
				t.Error("too little happened to tell")
			}
			if t.Failed() {
				t.Log(c.server.Log.String())
			}
		})
	}
}

// locksUnits is the capacity of the counted pool.
const locksUnits = 8

func locksConfig(t *testing.T) string {
	config := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "resources:\n- {type: lic, units: %d}\n", locksUnits), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// locksCampaign is one run of the campaign.
type locksCampaign struct {
	t      *testing.T
	dir    string // state of the clients, and the files that commands lock
	random *rand.Rand
	server *clitest.DurableServer
	atOnce chan struct{} // has a place for each client

	mu                    sync.Mutex
	ran, killed, reserved int
}

func (c *locksCampaign) run() {
	var running sync.WaitGroup
	defer running.Wait()
	stopOperator := c.operate()
	defer stopOperator()
	for i := range *locksJobs {
		c.atOnce <- struct{}{}
		c.start(&running, i)
		time.Sleep(time.Duration(c.random.IntN(20)) * time.Millisecond)
		if i == *locksJobs/3 || i == *locksJobs*2/3 {
			c.server.Restart()
		}
		c.inBounds()
	}
	running.Wait()
	stopOperator()
	clitest.Await(c.t, &c.server.Log, "nothing to be held", func() bool {
		pools, err := c.pools()
		free := err == nil
		for _, p := range pools {
			free = free && p.InUse == 0 && p.Waiting == 0
		}
		if !free { // held by a killed one: the next command gives it back
			c.command("recover").Run()
		}
		return free
	})
}

// start starts a job. A fifth of the jobs are killed, wherever they are, unless they end before.
func (c *locksCampaign) start(running *sync.WaitGroup, i int) {
	args := []string{"exec", "--owner", fmt.Sprint("j", i), "--ttl", "30s", "--grace-period", "1s"}
	lock := "" // of a key
	want := "" // of a request of several pools
	switch c.random.IntN(6) {
	case 0:
		key, mode := strconv.Itoa(c.random.IntN(2)), [...]string{"read", "read", "write"}[c.random.IntN(3)]
		args = append(args, "--type", "db", "--key", key, "--key-mode", mode)
		lock = key + ":" + mode
	case 1:
		args = append(args, "--type", "acc", "--name", fmt.Sprint("acc-", c.random.IntN(3)))
	case 2:
		args = append(args, "--type", "acc")
	case 3:
		args = append(args, "--type", "lic", "--count", strconv.Itoa(1+c.random.IntN(locksUnits)))
	case 4:
		args = append(args, "--type", "acc", "--also", fmt.Sprint("lic=", 1+c.random.IntN(locksUnits)))
		want = "acc=1,lic=1"
	case 5:
		accounts := 1 + c.random.IntN(2)
		args = append(args, "--type", "lic", "--count", strconv.Itoa(1+c.random.IntN(locksUnits/2)), "--also", "db=2", "--also", fmt.Sprint("acc=", accounts))
		want = fmt.Sprintf("lic=1,db=2,acc=%d", accounts)
	}
	if c.random.IntN(5) == 0 {
		args = append(args, "--priority", strconv.Itoa(c.random.IntN(7)-3))
	}
	pidFile := filepath.Join(c.dir, fmt.Sprint("pid-", i))
	hold := time.Duration(50+c.random.IntN(300)) * time.Millisecond
	cmd := c.command(append(args, "--", "lockwitness", c.dir, pidFile, lock, want, hold.String())...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	kill := c.random.IntN(5) == 0
	after := time.Duration(c.random.IntN(250)) * time.Millisecond
	running.Go(func() {
		defer func() { <-c.atOnce }()
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		var err error
		if kill {
			select {
			case err = <-ended:
			case <-time.After(after):
				killWithCommand(cmd.Process.Pid, pidFile)
				<-ended
				c.count(&c.killed)
				return
			}
		} else {
			late := time.AfterFunc(2*clitest.Patience, func() { cmd.Process.Kill() })
			defer late.Stop()
			err = <-ended
		}
		if err != nil {
			c.t.Errorf("%v: %v\n%s", args, err, &stderr)
		}
		c.count(&c.ran)
	})
}

// killWithCommand kills an exec and its command. The command is dead first: otherwise it might live a
// moment longer than the lease, which others give back.
func killWithCommand(pid int, pidFile string) {
	syscall.Kill(pid, syscall.SIGSTOP)
	if text, err := os.ReadFile(pidFile); err == nil { // it has not been reaped: its parent stands still, or is dead
		if command, err := strconv.Atoi(string(text)); err == nil {
			syscall.Kill(command, syscall.SIGKILL)
			for clitest.Lives(command) {
				time.Sleep(time.Millisecond)
			}
		}
	}
	syscall.Kill(pid, syscall.SIGKILL)
}

// operate reserves names and gives them back, until stop is called.
func (c *locksCampaign) operate() (stop func()) {
	random := rand.New(rand.NewPCG(c.random.Uint64(), 3))
	end := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Duration(random.IntN(300)) * time.Millisecond):
				c.reserve(fmt.Sprint("acc-", random.IntN(3)))
			}
		}
	})
	return sync.OnceFunc(func() {
		close(end)
		done.Wait()
	})
}

func (c *locksCampaign) reserve(name string) {
	if out, err := c.command("reserve", name, "--reason", "the campaign says so", "--owner", "operator").CombinedOutput(); err != nil {
		c.t.Errorf("reserve %s: %v\n%s", name, err, out)
		return
	}
	for late := time.Now().Add(clitest.Patience); c.holds(name); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			c.t.Errorf("%s is reserved, and its holder does not end", name)
			return
		}
		c.command("recover").Run() // it may have been killed
	}
	unlock, err := lockAll(c.dir, []string{"name-" + name}, "")
	if err != nil {
		c.t.Errorf("%s is reserved, and used: %v", name, err)
	}
	time.Sleep(20 * time.Millisecond) // in which somebody could be granted it
	unlock()
	if out, err := c.command("release", "--names", name, "--owner", "operator").CombinedOutput(); err != nil {
		c.t.Errorf("give back %s: %v\n%s", name, err, out)
	}
	c.count(&c.reserved)
}

// holds tells whether somebody holds a name, as far as the server answers.
func (c *locksCampaign) holds(name string) bool {
	pools, err := c.pools()
	return err != nil || slices.ContainsFunc(pools, func(p leaseapi.Pool) bool {
		return slices.ContainsFunc(p.Leases, func(l leaseapi.PoolLease) bool { return l.Name == name })
	})
}

func (c *locksCampaign) inBounds() {
	pools, err := c.pools()
	if err != nil {
		c.t.Error(err)
	}
	for _, p := range pools {
		if p.InUse > p.Capacity {
			c.t.Errorf("%s: %d of %d in use", p.Type, p.InUse, p.Capacity)
		}
	}
}

func (c *locksCampaign) pools() ([]leaseapi.Pool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), clitest.Patience)
	defer cancel()
	return c.server.Client.Pools(ctx)
}

func (c *locksCampaign) command(args ...string) *exec.Cmd {
	cmd := c.server.Command(filepath.Join(c.dir, "state"), args...)
	cmd.WaitDelay = clitest.Patience // a command whose exec was killed may keep its stderr
	return cmd
}

func (c *locksCampaign) count(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

// lockWitness is the command of a job: lockwitness DIR PIDFILE KEY:MODE TYPE=N,… HOLD. It fails if
// somebody else has one of its leases, or its key, or if it does not have N leases of each TYPE.
func lockWitness() {
	err := func() error {
		dir, pidFile, key := os.Args[1], os.Args[2], os.Args[3]
		hold, err := time.ParseDuration(os.Args[5])
		if err != nil {
			return err
		}
		if err := os.WriteFile(pidFile+".new", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			return err
		}
		if err := os.Rename(pidFile+".new", pidFile); err != nil {
			return err
		}
		defer os.Remove(pidFile)
		var files []string
		for name := range strings.SplitSeq(os.Getenv("LEASECTL_NAMES"), ",") {
			files = append(files, "name-"+name)
		}
		for want := range strings.SplitSeq(os.Args[4], ",") {
			typ, n, found := strings.Cut(want, "=")
			names := os.Getenv("LEASECTL_NAMES_" + strings.ToUpper(typ))
			if found && fmt.Sprint(len(strings.Split(names, ","))) != n {
				return fmt.Errorf("want %s of type %s, have %q", n, typ, names)
			}
		}
		unlock, err := lockAll(dir, files, key)
		if err != nil {
			return err
		}
		time.Sleep(hold)
		unlock()
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lockwitness:", err)
		os.Exit(1)
	}
}

// lockAll locks the files in dir alone, and that of a key as it says. Who ends, ends its locks.
func lockAll(dir string, files []string, key string) (unlock func(), err error) {
	var locked []*os.File
	unlock = func() {
		for _, f := range locked {
			syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // also of a copy in a child that has not begun its program yet
			f.Close()
		}
	}
	lock := func(file string, how int) error {
		f, err := os.OpenFile(filepath.Join(dir, file), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		locked = append(locked, f)
		if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err != nil {
			return fmt.Errorf("%s is in use: %w", file, err)
		}
		return nil
	}
	for _, file := range files {
		if err := lock(file, syscall.LOCK_EX); err != nil {
			return unlock, err
		}
	}
	if name, mode, found := strings.Cut(key, ":"); found {
		how := syscall.LOCK_SH
		if mode == "write" {
			how = syscall.LOCK_EX
		}
		return unlock, lock("key-"+name, how)
	}
	return unlock, nil
}
