package etcd

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/etcd/etcdtest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated/leadtest"
)

// withUsers starts an etcd with authentication, a user root and a user leases, who may touch
// nothing but prefix by a role of the same name. It returns a call of etcd's administrator.
func withUsers(t *testing.T, prefix string) (c *etcdtest.Cluster, do func(path string, in any)) {
	t.Helper()
	c = etcdtest.Start(t, 1)
	file := filepath.Join(t.TempDir(), "root")
	if err := os.WriteFile(file, []byte("root:secret of root\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// etcd 3.4 refuses a token while it has no authentication.
	admin := elector(t, Options{URL: c.URL(prefix)})
	do = func(path string, in any) {
		t.Helper()
		if err := admin.call(t.Context(), path, in, &struct{}{}); err != nil {
			t.Fatal(path, err)
		}
	}
	for _, name := range []string{"root", "leases"} {
		do("/v3/auth/user/add", map[string]string{"name": name, "password": "secret of " + name})
		do("/v3/auth/role/add", map[string]string{"name": name})
		do("/v3/auth/user/grant", map[string]string{"user": name, "role": name})
	}
	keys := []byte(prefix + "/")
	do("/v3/auth/role/grant", map[string]any{"name": "leases", "perm": map[string]any{"permType": "READWRITE", "key": keys, "range_end": rangeEnd(keys)}})
	do("/v3/auth/enable", struct{}{})
	admin = elector(t, Options{URL: c.URL(prefix), CredentialsFile: file})
	return c, do
}

// With users in etcd the servers authenticate, also when etcd has forgotten their
// token; a user who may touch nothing but the prefix is enough.
func TestCredentials(t *testing.T) {
	t.Parallel()
	c, do := withUsers(t, "credentials")
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("leases:wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	refused, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	watched := writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("authentication failed")) {
			cancel()
		}
		return log.Write(p)
	})
	e := elector(t, Options{URL: c.URL("credentials"), TTL: 10 * time.Second, CredentialsFile: file, Log: slog.New(slog.NewTextHandler(watched, nil))})
	if _, err := e.Gain(refused); err == nil || !strings.Contains(log.String(), "authentication failed") {
		t.Errorf("with a wrong password: %v\n%s", err, &log)
	}
	if err := os.WriteFile(file, []byte("leases:secret of leases\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := leadtest.Gain(t, e, patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
	e.mu.Lock()
	e.token = "expired.1"
	e.mu.Unlock()
	leadtest.Commit(t, l, leadtest.Granted("q-1", 2))
	c.Members[0].Kill() // it forgets its tokens
	if err := c.Members[0].Start(); err != nil {
		t.Fatal(err)
	}
	leadtest.Commit(t, l, leadtest.Granted("q-2", 3))
	do("/v3/auth/disable", struct{}{}) // after which etcd 3.4 still refuses a token that it does not know
	e.mu.Lock()
	e.token = "expired.2"
	e.mu.Unlock()
	leadtest.Commit(t, l, leadtest.Granted("q-3", 4))
	if snap := leadtest.Load(t, l); len(snap.Leases) != 4 {
		t.Errorf("%d leases", len(snap.Leases))
	}
	if err := l.Close(); err != nil { // ends the goroutines that write to the log
		t.Error(err)
	}
}

// The leader compacts etcd's history and measures the database if its user has the role root. A
// user with less may do so in some versions of etcd. In the others the log names the role.
func TestRoleRoot(t *testing.T) {
	t.Parallel()
	c, do := withUsers(t, "upkeep")
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("leases:secret of leases\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := leadtest.Gain(t, elector(t, Options{URL: c.URL("upkeep"), CredentialsFile: file, NoCompact: true}), patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
	// Upkeep in the place of the leader's, which works in the background.
	var log bytes.Buffer
	e := elector(t, Options{URL: c.URL("upkeep"), CredentialsFile: file, Log: slog.New(slog.NewTextHandler(&log, nil))})
	u := e.upkeep
	last := u.compact(t.Context(), 1)
	err := e.call(t.Context(), "/v3/kv/compaction", compactRequest{Revision: last - 1}, &struct{}{})
	if err != nil && !forbidden(err) {
		t.Fatal(err)
	}
	allowed := err == nil
	if asks := strings.Contains(log.String(), "users with the role root compact it"); asks == allowed {
		t.Errorf("etcd lets the user compact: %t; the log says\n%s", allowed, &log)
	}
	u.measure(t.Context())
	u.measure(t.Context())
	allowed = u.size.Load().Size > 0
	if asks := strings.Count(log.String(), "only to users with the role root"); allowed && asks != 0 || !allowed && asks != 1 {
		t.Errorf("etcd lets the user see the size: %t; the log says\n%s", allowed, &log)
	}

	log.Reset()
	do("/v3/auth/user/grant", map[string]string{"user": "leases", "role": "root"})
	leadtest.Commit(t, l, leadtest.Granted("q-1", 2))
	last = u.compact(t.Context(), last)
	last = u.compact(t.Context(), last)
	if err := e.call(t.Context(), "/v3/kv/compaction", compactRequest{Revision: last - 1}, &struct{}{}); !compacted(err) {
		t.Errorf("the history before revision %d is still there: %v", last, err)
	}
	if u.measure(t.Context()); u.size.Load().Size == 0 {
		t.Error("with the role root the size is not known")
	}
	if log.Len() > 0 {
		t.Errorf("with the role root the log says\n%s", &log)
	}
}

// A user who may not read or not write the keys gets no lead, and the log names the right that is
// missing. Once it is granted, the server leads.
func TestMissingRight(t *testing.T) {
	t.Parallel()
	c, do := withUsers(t, "missing")
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("leases:secret of leases\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key := []byte("missing/")
	grant := func(kind string) {
		t.Helper()
		do("/v3/auth/role/grant", map[string]any{"name": "leases", "perm": map[string]any{"permType": kind, "key": key, "range_end": rangeEnd(key)}})
	}
	do("/v3/auth/role/revoke", map[string]any{"role": "leases", "key": key, "range_end": rangeEnd(key)})
	for _, granted := range []string{"", "READ", "WRITE"} {
		if granted != "" {
			grant(granted)
		}
		var log bytes.Buffer
		refused, cancel := context.WithTimeout(t.Context(), patience)
		watched := writerFunc(func(p []byte) (int, error) {
			cancel()
			return log.Write(p)
		})
		e := elector(t, Options{URL: c.URL("missing"), CredentialsFile: file, Log: slog.New(slog.NewTextHandler(watched, nil))})
		if _, err := e.Gain(refused); err == nil || !strings.Contains(log.String(), "--prefix=true readwrite missing/") {
			t.Errorf("with the right %q: %v\n%s", granted, err, &log)
		}
		cancel()
	}
	grant("READWRITE")
	l := leadtest.Gain(t, elector(t, Options{URL: c.URL("missing"), CredentialsFile: file}), patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// When a password is changed in etcd before it is in the credentials file, a commit is made
// again until the file has it: the lead goes on.
func TestChangedPassword(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, 1)
	file := filepath.Join(t.TempDir(), "credentials")
	write := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("root:"+password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	told := make(chan struct{})
	tell := sync.OnceFunc(func() { close(told) })
	log := writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("authentication failed")) {
			tell()
		}
		return len(p), nil
	})
	e := elector(t, Options{URL: c.URL("password"), CredentialsFile: file, Log: slog.New(slog.NewTextHandler(log, nil))})
	do := func(path string, in any) {
		t.Helper()
		if err := e.call(t.Context(), path, in, &struct{}{}); err != nil {
			t.Fatal(path, err)
		}
	}
	do("/v3/auth/user/add", map[string]string{"name": "root", "password": "old"})
	do("/v3/auth/role/add", map[string]string{"name": "root"})
	do("/v3/auth/user/grant", map[string]string{"user": "root", "role": "root"})
	do("/v3/auth/enable", struct{}{})
	l := leadtest.Gain(t, e, patience)
	leadtest.Load(t, l)
	do("/v3/auth/user/changepw", map[string]string{"name": "root", "password": "new"})
	done := make(chan error, 1)
	go func() {
		done <- l.Commit(store.Batch{Changes: []pool.Change{leadtest.Granted("q-0", 1)}, Generation: 1})
	}()
	select {
	case <-told:
		write("new")
	case err := <-done:
		t.Fatalf("with the old password: %v", err)
	case <-time.After(patience):
		t.Fatal("nothing is said of the old password")
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A token with the revision of the users, such as a JWT of etcd, is invalid after any user,
// role or grant has changed: the servers get a new token.
func TestCredentialsAfterAChangeOfUsers(t *testing.T) {
	t.Parallel()
	etcdtest.Need(t)
	dir := t.TempDir()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	privateFile, publicFile, file := filepath.Join(dir, "private"), filepath.Join(dir, "public"), filepath.Join(dir, "credentials")
	for path, data := range map[string][]byte{
		privateFile: pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}),
		publicFile:  pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		file:        []byte("root:secret\n"),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := etcdtest.Start(t, 1, "--auth-token", "jwt,sign-method=RS256,pub-key="+publicFile+",priv-key="+privateFile)
	e := elector(t, Options{URL: c.URL("users"), CredentialsFile: file})
	do := func(path string, in any) {
		t.Helper()
		if err := e.call(t.Context(), path, in, &struct{}{}); err != nil {
			t.Fatal(path, err)
		}
	}
	do("/v3/auth/user/add", map[string]string{"name": "root", "password": "secret"})
	do("/v3/auth/role/add", map[string]string{"name": "root"})
	do("/v3/auth/user/grant", map[string]string{"user": "root", "role": "root"})
	do("/v3/auth/enable", struct{}{})
	l := leadtest.Gain(t, e, patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
	do("/v3/auth/user/add", map[string]string{"name": "another", "password": "secret"})
	leadtest.Commit(t, l, leadtest.Granted("q-1", 2))
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// Over TLS a member must have a certificate of the given authority, and is shown ours.
func TestTLS(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	w := &wire{to: c.Members[0].Host}
	w.Server = httptest.NewUnstartedServer(w)
	w.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	w.StartTLS()
	defer w.Close()
	defer w.CloseClientConnections()
	dir := t.TempDir()
	ca, cert, key := filepath.Join(dir, "ca"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	pair := w.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		ca: {Type: "CERTIFICATE", Bytes: w.Certificate().Raw}, cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	url := "etcds://" + strings.TrimPrefix(w.URL, "https://") + "/tls"
	l := leadtest.Gain(t, elector(t, Options{URL: url, CAFile: ca, CertFile: cert, KeyFile: key}), patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
	l.Close()
	for what, o := range map[string]Options{"no authority": {CertFile: cert, KeyFile: key}, "no certificate": {CAFile: ca}} {
		o.URL = url
		e := elector(t, o)
		if _, err := e.Look(t.Context()); err == nil {
			t.Errorf("with %s etcd answered", what)
		}
	}
	if _, err := Open(Options{URL: url, CAFile: key}); err == nil {
		t.Error("a key was taken for an authority")
	}

	// The file of authorities may be replaced, as the others may.
	trusted, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	later := filepath.Join(dir, "later")
	if err := os.WriteFile(later, otherAuthority(t), 0o600); err != nil {
		t.Fatal(err)
	}
	e := elector(t, Options{URL: url, CAFile: later, CertFile: cert, KeyFile: key})
	if _, err := e.Look(t.Context()); err == nil {
		t.Error("with another authority etcd answered")
	}
	if err := os.WriteFile(later, trusted, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Look(t.Context()); err != nil {
		t.Errorf("after the authority was replaced: %v", err)
	}
}

// otherAuthority is a certificate that has signed nothing.
func otherAuthority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, hosts, prefix string }{
		{"etcd://a:1,b/leases", "a:1 b:2379", "leases"},
		{"etcds://[::1]:2379/a/b/", "[::1]:2379", "a/b"},
		{"etcd://[::1]/a", "[::1]:2379", "a"},
		{"etcd://a/records/x", "a:2379", "records/x"},
		{"etcd://a/b/records", "", ""},
		{"etcd://a/b/standby/c", "", ""},
		{"etcd://a:1", "", ""},
		{"etcd://a:1/", "", ""},
		{"etcd:///p", "", ""},
		{"etcd://a,,b/p", "", ""},
		{"etcd://user:secret@a/p", "", ""},
		{"http://a/p", "", ""},
		{"etcd://a/p?x", "", ""},
		{"https://a:2379/p", "", ""},
		{"ETCD://a/p", "", ""},
		{"etcd://a:0/p", "", ""},
		{"etcd://a:65536/p", "", ""},
		{"etcd://a:client/p", "", ""},
		{"etcd:/a:2379/p", "", ""},
		{"etcd:a:2379/p", "", ""},
		{"etcds:///a", "", ""},
		{"etcd//a:2379/p", "", ""},
		{"Etcd:a/p", "", ""},
		{"http:/a/p", "", ""},
		{"file:/var/lib/leasectl", "", ""},
	} {
		if !IsURL(tt.url) {
			t.Errorf("%s is taken for a directory", tt.url)
		}
		a, err := ParseURL(tt.url)
		if (err != nil) != (tt.hosts == "") || err == nil && (strings.Join(a.Hosts, " ") != tt.hosts || a.Prefix != tt.prefix) {
			t.Errorf("%s: %+v, %v", tt.url, a, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error repeats the password: %v", tt.url, err)
		}
	}
}

// The path of a directory is no URL.
func TestDirectoriesAreNoURLs(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"data", "./leases", "/var/lib/leasectl", "etcd", "etcd/data", "./etcd:a", "/srv/a:/b", "a:b", "a:", "~/etcd:", "etcd/", "etcd.d:1"} {
		if IsURL(dir) {
			t.Errorf("%s is taken for a URL", dir)
		}
	}
}

// An etcd whose database has reached its quota gets a line of its own in the log. When it has
// space again, the commit that waited is made, or one of the next leader.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, 1, "--quota-backend-bytes", "4000000")
	lines := make(chan string, 1000)
	log := slog.New(slog.NewTextHandler(lineWriter(lines), nil))
	e := elector(t, Options{URL: c.URL("no-space"), TTL: 5 * time.Second, Log: log})
	l := leadtest.Gain(t, e, patience)
	leadtest.Load(t, l)
	do := func(path string, in any) error { return e.call(t.Context(), path, in, &struct{}{}) }
	fill := putRequest{Key: []byte("other"), Value: make([]byte, 1<<20)}
	for end := time.Now().Add(patience); !noSpace(do("/v3/kv/put", fill)); {
		if time.Now().After(end) {
			t.Fatal("etcd takes any number of bytes")
		}
	}
	failed := make(chan error, 1)
	go func() {
		failed <- l.Commit(store.Batch{Changes: []pool.Change{leadtest.Granted("q-0", 1)}, Generation: 1})
	}()
	for said := false; !said; {
		select {
		case line := <-lines:
			said = strings.Contains(line, "no space: etcd takes no writes")
		case <-time.After(patience):
			t.Fatal("the log does not say so")
		}
	}
	<-failed // whether it was made before the lead lapsed or not
	l.Close()
	var all rangeResponse
	if err := e.call(t.Context(), "/v3/kv/range", rangeRequest{Key: e.metaKey()}, &all); err != nil {
		t.Fatal(err)
	}
	var alarms struct {
		Alarms []struct {
			MemberID string `json:"memberID"`
		} `json:"alarms"`
	}
	if err := e.call(t.Context(), "/v3/maintenance/alarm", struct{}{}, &alarms); err != nil || len(alarms.Alarms) != 1 {
		t.Fatalf("alarms %+v, %v", alarms, err)
	}
	for _, step := range []struct {
		path string
		in   any
	}{
		{"/v3/kv/compaction", map[string]any{"revision": strconv.FormatInt(all.Header.Revision, 10), "physical": true}},
		{"/v3/maintenance/defragment", struct{}{}},
		{"/v3/maintenance/alarm", map[string]string{"action": "DEACTIVATE", "alarm": "NOSPACE", "memberID": alarms.Alarms[0].MemberID}},
	} {
		if err := do(step.path, step.in); err != nil {
			t.Error(err)
		}
	}
	l = leadtest.Gain(t, e, patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-1", 2))
}

type writerFunc func(p []byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

// lineWriter sends each line of a log, and drops those that nobody reads.
type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	select {
	case w <- string(p):
	default:
	}
	return len(p), nil
}
