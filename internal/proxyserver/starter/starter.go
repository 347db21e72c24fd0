// Package starter writes the files that a first server needs: its pools, who may ask, secrets, and
// a certificate with an authority of its own.
//
// Guarantees:
//   - A file that is there stays as it is. What is missing is made to fit it: a new certificate is
//     signed by the authority that is there.
//   - If [Write] fails, the files that it made are gone again. If it is killed, those that it made
//     are whole, and the next Write makes the others: a key that is alone gets its certificate. Only
//     a file .leasectl-init-… may be left, which nobody reads.
//   - A directory, or a link to it, that another user can put something else in the place of is refused,
//     and so is a file of another user in a directory to which others can write.
//   - Every file has mode 0600, and the directory 0700 if Write made it. If root makes a file anew
//     that the server's user must read, it gets the user who has auth.yaml.
//   - A server accepts the pools and the rules: they are parsed before anything is written.
//
// Caveat: the key of the authority is beside the server's own. Whoever reads it can pretend to be
// the server; only making another certificate needs it, so it may be kept elsewhere.
package starter

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/leasectl/leasectl/internal/own"
	"github.com/leasectl/leasectl/internal/proxyserver/config"
)

// The files.
const (
	Pools           = "pools.yaml"
	Auth            = "auth.yaml"
	JobsToken       = "jobs.token"
	OperatorsToken  = "operators.token"
	MonitoringToken = "monitoring.token"
	Certificate     = "tls.crt"
	Key             = "tls.key"
	Authority       = "ca.crt"
	AuthorityKey    = "ca.key"
)

var names = []string{Pools, Auth, JobsToken, OperatorsToken, MonitoringToken, Certificate, Key, Authority, AuthorityKey}

// Options say what the files are about.
type Options struct {
	// Hosts are the names and IP addresses under which clients reach the server. A certificate
	// that is there must have them all. Without any, the certificate's own count, or else the
	// name of the machine.
	Hosts []string
	Pools []Pool // at least one; not used if there is a file with pools
}

// Pool is a pool of leases named TYPE-0 and so on.
type Pool struct {
	Type     string
	Capacity int
}

// Result says what there is now.
type Result struct {
	Made         []string // files that were missing, in the order in which they were made
	Host         string   // the first name under which clients reach the server
	OwnAuthority bool     // clients must be given the authority's certificate
}

// Write makes the files that are missing in dir, and dir itself.
func Write(dir string, o Options) (r Result, err error) {
	pools, err := poolsFile(o.Pools)
	if err != nil {
		return r, err
	}
	for _, host := range o.Hosts {
		if err := checkHost(host); err != nil {
			return r, err
		}
	}
	w := &writer{dir: dir, user: serverUser(filepath.Join(dir, Auth))}
	defer func() {
		if err != nil {
			w.undo()
		}
	}()
	if err := w.makeDir(); err != nil {
		return r, err
	}
	for _, name := range names {
		if err := own.File(w.path(name)); err != nil {
			return r, err
		}
	}
	err = errors.Join(w.fileIfMissing(Pools, pools), w.fileIfMissing(Auth, []byte(authFile)))
	for _, name := range []string{JobsToken, OperatorsToken, MonitoringToken} {
		err = errors.Join(err, w.fileIfMissing(name, []byte(rand.Text()+"\n")))
	}
	if err != nil {
		return r, err
	}
	if r.Host, err = w.certificate(o.Hosts); err != nil {
		return r, err
	}
	r.Made, r.OwnAuthority = w.made, w.ownAuthority()
	return r, nil
}

// writer makes files that are missing.
type writer struct {
	dir     string
	user    int      // who gets the files; -1: who made them
	newDirs []string // outermost first
	made    []string
}

// serverUser returns the user who has the file of the rules, to whom root may have given it so that the
// server can read it; -1 if there is none yet, or this is not root.
func serverUser(auth string) int {
	info, err := os.Stat(auth)
	if err != nil || os.Geteuid() != 0 {
		return -1
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(stat.Uid)
}

// makeDir makes the directory and those above it.
func (w *writer) makeDir() error {
	if err := own.Dir(w.dir); err != nil {
		return err
	}
	for dir := w.dir; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		w.newDirs = append([]string{dir}, w.newDirs...)
	}
	return os.MkdirAll(w.dir, 0o700)
}

func (w *writer) path(name string) string { return filepath.Join(w.dir, name) }

// fileIfMissing writes a file, unless it is there.
func (w *writer) fileIfMissing(name string, text []byte) error {
	if err := w.file(name, text); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// file writes a file, which is there as a whole or not at all. If it was there, the error is
// fs.ErrExist, and it stays.
func (w *writer) file(name string, text []byte) error {
	if _, err := os.Lstat(w.path(name)); err == nil {
		return fmt.Errorf("%s: %w", w.path(name), fs.ErrExist)
	}
	f, err := os.CreateTemp(w.dir, ".leasectl-init-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if w.user >= 0 && name != AuthorityKey {
		err = errors.Join(err, f.Chown(w.user, -1))
	}
	if err = errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close()); err != nil {
		return err
	}
	// Unlike a rename, a link replaces nothing that has come there meanwhile.
	if err := os.Link(f.Name(), w.path(name)); err != nil {
		return err
	}
	w.made = append(w.made, name)
	return nil
}

// hasPair tells whether a certificate and its key are there. A certificate without its key is an
// error.
func (w *writer) hasPair(certificate, key string) (bool, error) {
	_, noCertificate := os.Stat(w.path(certificate))
	_, noKey := os.Stat(w.path(key))
	switch {
	case noCertificate == nil && noKey == nil:
		return true, nil
	case noCertificate == nil && errors.Is(noKey, fs.ErrNotExist):
		return false, fmt.Errorf("%s is there, but %s is not: put it there too, or remove the first to have both made", w.path(certificate), key)
	case noCertificate != nil && !errors.Is(noCertificate, fs.ErrNotExist):
		return false, noCertificate
	case noKey != nil && !errors.Is(noKey, fs.ErrNotExist):
		return false, noKey
	}
	return false, nil
}

// undo removes what was made.
func (w *writer) undo() {
	for _, name := range w.made {
		os.Remove(w.path(name))
	}
	for i := len(w.newDirs) - 1; i >= 0; i-- {
		os.Remove(w.newDirs[i]) // fails if somebody else put something there
	}
}

// poolsFile returns a file with pools, and with comments about what else may be set.
func poolsFile(pools []Pool) ([]byte, error) {
	var text strings.Builder
	text.WriteString(poolsHead)
	for _, p := range pools {
		count := strconv.Itoa(p.Capacity)
		text.WriteString("- type: " + strconv.Quote(p.Type) + "\n  min-count: " + count + "\n  max-count: " + count + "\n" + poolsMore)
	}
	_, _, err := config.ParsePools(Pools, []byte(text.String()))
	return []byte(text.String()), err
}

const poolsHead = `# The pools of the lease proxy, for serve --config. The server reads the file again
# when it changes, and says so in its log; a file with an error changes nothing.
# docs/pools.md has every setting.
resources:
`

const poolsMore = `  # hold: 20m        # how long a job usually holds its lease, for pace: auto
  # pace: auto       # grants are spread evenly instead of in waves: one each hold / max-count
  # default_ttl: 4h  # of a lease whose holder asks for no time, and does not renew
`

const authFile = `# Who may ask the lease proxy, for serve --auth. The server reads this file, and the
# files of the secrets, again when they change. To replace a secret, write another into its
# file. docs/access.md has all that can be said here.
tokens:
- name: jobs # acquires, renews and releases leases of its own
  secret_file: jobs.token
  # pools: [install]  # the types that it may use, if not all
- name: operators # may also break, remove, move, pause, resume, reserve and backup
  secret_file: operators.token
  role: admin
- name: monitoring # looks, reads /metrics, and changes nothing
  secret_file: monitoring.token
  role: read

# Jobs of GitHub, GitLab and Kubernetes have tokens of their own, and need no copy of a
# secret. For the jobs of an organisation on GitHub, by its number:
#
# issuers:
# - issuer: https://token.actions.githubusercontent.com
#   audience: leasectl
#   rules:
#   - claims: {repository_owner_id: "65"}
#     name: "{repository}"
`
