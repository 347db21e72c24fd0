package starter_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/config"
	"github.com/leasectl/leasectl/internal/proxyserver/starter"
)

var options = starter.Options{Hosts: []string{"leases.example", "192.0.2.7"}, Pools: []starter.Pool{{Type: "install", Capacity: 4}, {Type: "true", Capacity: 1}}}

func write(t *testing.T, dir string, o starter.Options) starter.Result {
	t.Helper()
	r, err := starter.Write(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func certificate(t *testing.T, dir, name string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(read(t, dir, name)))
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// verify checks that clients with the authority accept the certificate for hosts.
func verify(t *testing.T, dir string, hosts ...string) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(certificate(t, dir, starter.Authority))
	for _, host := range hosts {
		if _, err := certificate(t, dir, starter.Certificate).Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("for %s: %v", host, err)
		}
	}
}

// uncommented finds settings that are comments.
var uncommented = regexp.MustCompile(`(?m)^  # `)

// A server takes what is written, and only its user can read it. The lines that are comments mean
// what they say, too.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "leases")
	r := write(t, dir, options)
	if r.Host != "leases.example" || !r.OwnAuthority || len(r.Made) != 9 {
		t.Errorf("%+v", r)
	}
	for _, name := range append(r.Made, ".") {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 && !info.IsDir() || info.IsDir() && info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}

	for _, text := range []string{read(t, dir, starter.Pools), uncommented.ReplaceAllString(read(t, dir, starter.Pools), "  ")} {
		pools, warnings, err := config.ParsePools(starter.Pools, []byte(text))
		if err != nil || len(warnings) > 0 || len(pools) != 2 || pools[0].Type != "install" || len(pools[0].Names) != 4 || pools[1].Type != "true" {
			t.Errorf("%v, %v, %+v", err, warnings, pools)
		}
	}
	secrets := make(map[string][]byte)
	for _, name := range []string{starter.JobsToken, starter.OperatorsToken, starter.MonitoringToken} {
		secrets[name] = []byte(read(t, dir, name))
	}
	text := read(t, dir, starter.Auth)
	head, issuers, _ := strings.Cut(text, "#\n# issuers:")
	for _, text := range []string{text, uncommented.ReplaceAllString(head, "  ") + "issuers:" + strings.ReplaceAll(issuers, "\n# ", "\n")} {
		c, err := config.ParseAuth(starter.Auth, []byte(text), secrets)
		if err != nil || len(c.Tokens) != 3 {
			t.Fatal(err, c)
		}
		for i, role := range []string{"", "admin", "read"} {
			if string(c.Tokens[i].Role) != role {
				t.Errorf("%+v has not role %q", c.Tokens[i], role)
			}
		}
	}
	verify(t, dir, "leases.example", "192.0.2.7", "localhost", "127.0.0.1", "::1")
	if _, err := certificate(t, dir, starter.Certificate).Verify(x509.VerifyOptions{Roots: x509.NewCertPool()}); err == nil {
		t.Error("anybody trusts the certificate")
	}
}

// Nothing that is there changes; what is missing is made to fit it.
func TestWriteAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	all := write(t, dir, options).Made
	before := make(map[string]string)
	for _, name := range all {
		before[name] = read(t, dir, name)
	}
	if r := write(t, dir, starter.Options{Pools: []starter.Pool{{Type: "other", Capacity: 1}}}); len(r.Made) > 0 || r.Host != "leases.example" {
		t.Errorf("%+v", r)
	}
	gone := []string{starter.JobsToken, starter.Key, starter.Certificate}
	for _, name := range gone {
		os.Remove(filepath.Join(dir, name))
	}
	if r := write(t, dir, starter.Options{Hosts: []string{"new.example"}, Pools: options.Pools}); !slices.Equal(r.Made, gone) || r.Host != "new.example" {
		t.Errorf("%+v", r)
	}
	for _, name := range all {
		if changed := read(t, dir, name) != before[name]; changed != slices.Contains(gone, name) {
			t.Errorf("%s changed: %v", name, changed)
		}
	}
	verify(t, dir, "new.example")

	// With a certificate of somebody else's authority there is no need of one.
	os.Remove(filepath.Join(dir, starter.Authority))
	os.Remove(filepath.Join(dir, starter.AuthorityKey))
	if r := write(t, dir, starter.Options{Hosts: []string{"new.example"}, Pools: options.Pools}); r.OwnAuthority || len(r.Made) > 0 {
		t.Errorf("%+v", r)
	}
}

// A certificate of somebody else's authority may be for a wildcard, which is no address of a server.
func TestWildcard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"*.example.com"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{starter.Certificate: {Type: "CERTIFICATE", Bytes: der}, starter.Key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := starter.Write(dir, starter.Options{Pools: options.Pools}); err == nil || !strings.Contains(err.Error(), "tls.crt is for *.example.com: name the server with --host") {
		t.Errorf("%+v, %v", r, err)
	}
	if r := write(t, dir, starter.Options{Hosts: []string{"leases.example.com"}, Pools: options.Pools}); r.Host != "leases.example.com" {
		t.Errorf("%+v", r)
	}
}

// A Write that fails leaves what was there, and nothing else.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		there   []string
		options starter.Options
		says    string
	}{
		{"no key", []string{starter.Key}, options, "tls.key is no key in PKCS #8"},
		{"a certificate alone", []string{starter.Certificate}, options, "tls.crt is there, but tls.key is not"},
		{"an authority without its key", []string{starter.Authority}, options, "ca.crt is there, but ca.key is not"},
		{"no certificate", []string{starter.Certificate, starter.Key}, options, "tls.crt: "},
		{"no pool", nil, starter.Options{Pools: []starter.Pool{{Type: "a b", Capacity: 1}}}, `contains ' '`},
	} {
		dir := filepath.Join(t.TempDir(), "leases")
		for _, name := range tt.there {
			os.MkdirAll(dir, 0o700)
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := starter.Write(dir, tt.options); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
		entries, err := os.ReadDir(dir)
		if len(entries) != len(tt.there) || tt.there == nil && !os.IsNotExist(err) {
			t.Errorf("%s: left %v, %v", tt.name, entries, err)
		}
	}
	for _, name := range []string{starter.Key, starter.AuthorityKey} { // nobody waits for a pipe
		dir := t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := starter.Write(dir, options); err == nil || !strings.Contains(err.Error(), name+" is no file of a key") {
			t.Errorf("a pipe as %s: %v", name, err)
		}
	}
	dir := t.TempDir()
	write(t, dir, options)
	if _, err := starter.Write(dir, starter.Options{Hosts: []string{"other.example"}, Pools: options.Pools}); err == nil || !strings.Contains(err.Error(), "tls.crt is not for other.example") {
		t.Error(err)
	}
}

// Nothing but a key may be there, as after a KILL: its certificate is made for it.
func TestWriteAfterKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	all := write(t, dir, options).Made
	for _, gone := range [][]string{
		{starter.Certificate},
		{starter.Certificate, starter.Key, starter.Authority},
		{starter.Certificate, starter.Key, starter.Authority, starter.AuthorityKey},
	} {
		before := make(map[string]string)
		for _, name := range all {
			before[name] = read(t, dir, name)
		}
		for _, name := range gone {
			os.Remove(filepath.Join(dir, name))
		}
		r, err := starter.Write(dir, options)
		if err != nil {
			t.Fatalf("without %q: %v", gone, err)
		}
		if len(r.Made) != len(gone) {
			t.Errorf("made %q, want %q", r.Made, gone)
		}
		for _, name := range all {
			if changed := read(t, dir, name) != before[name]; changed != slices.Contains(gone, name) {
				t.Errorf("without %q: %s changed: %v", gone, name, changed)
			}
		}
		verify(t, dir, "leases.example")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(all) {
		t.Errorf("left %v, %v", entries, err)
	}
}

// A secret that is made anew belongs to whom the server's files were given, or the server could not
// read it, and would go on with the old one. The key of the authority is none of the server's business.
func TestWriteAnew(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, options)
	user := os.Geteuid()
	if user == 0 {
		user = 65534
		if err := os.Chown(filepath.Join(dir, starter.Auth), user, -1); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{starter.OperatorsToken, starter.Certificate, starter.Key, starter.AuthorityKey, starter.Authority} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range write(t, dir, options).Made {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want := user
		if name == starter.AuthorityKey {
			want = os.Geteuid()
		}
		if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != want {
			t.Errorf("%s belongs to %d, want %d", name, uid, want)
		}
	}
}

// An authority that did not sign the certificate is of no use to clients, who are not told of it.
func TestCertificateOfAnotherAuthority(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	write(t, dir, options)
	write(t, other, options)
	for _, name := range []string{starter.Certificate, starter.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(read(t, other, name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, starter.JobsToken)); err != nil {
		t.Fatal(err)
	}
	if r := write(t, dir, options); r.OwnAuthority || !slices.Equal(r.Made, []string{starter.JobsToken}) {
		t.Errorf("%+v", r)
	}
}

// A name that no client could look up is refused before anything is made.
func TestHosts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 63)
	for host, want := range map[string]string{
		"müller.example": "xn--", "a..b": "no name", ".a": "no name", "a.": "no name", "-a.example": "no name", "a-.example": "no name", "a b": "no name",
		long + "x": "no name", strings.Repeat(long+".", 3) + long: "no name", "a\n": "no name",
		"xn--mller-kva.example": "", "LEASES": "", "a_b.example": "", long + ".example": "", "::1": "", "192.0.2.7": "",
	} {
		dir := filepath.Join(t.TempDir(), "new")
		_, err := starter.Write(dir, starter.Options{Hosts: []string{host}, Pools: options.Pools})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", host, err, want)
		}
		if _, gone := os.Stat(dir); err != nil && gone == nil {
			t.Errorf("%q: the directory was made", host)
		}
	}
}
