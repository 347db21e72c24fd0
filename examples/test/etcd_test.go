package test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const etcdPassword = "etcd-password-0123456789"

// freePort returns a port of ip that is free at the moment.
func freePort(t *testing.T, ip string) int {
	t.Helper()
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// startEtcd starts etcd with TLS, and a user leasectl who may touch nothing but prefix. It
// returns the address.
func startEtcd(t *testing.T, files secrets, prefix string) string {
	t.Helper()
	at := fmt.Sprintf("127.0.0.1:%d", freePort(t, "127.0.0.1"))
	peers := fmt.Sprintf("http://127.0.0.1:%d", freePort(t, "127.0.0.1"))
	log, err := os.Create(filepath.Join(t.TempDir(), "etcd.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("etcd", "--data-dir", t.TempDir(), "--listen-client-urls", "https://"+at, "--advertise-client-urls", "https://"+at,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers,
		"--cert-file", files.cert, "--key-file", files.key, "--unsafe-no-fsync", "--bcrypt-cost", "4", "--logger", "zap", "--log-level", "warn")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("etcd:\n%s", text)
		}
	})
	etcd := &server{t: t, url: "https://" + at, client: files.httpClient(t)}
	await(t, "etcd is healthy", func() bool { status, _ := etcd.get("/health"); return status == 200 })
	ctl := func(args ...string) {
		t.Helper()
		cmd := exec.Command("etcdctl", append([]string{"--endpoints", etcd.url, "--cacert", files.ca}, args...)...)
		cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("etcdctl %q: %v\n%s", args, err, out)
		}
	}
	ctl("user", "add", "root:"+etcdPassword)
	ctl("user", "add", "leasectl:"+etcdPassword)
	ctl("role", "add", "leasectl")
	ctl("role", "grant-permission", "leasectl", "--prefix=true", "readwrite", prefix)
	ctl("user", "grant-role", "leasectl", "leasectl")
	ctl("auth", "enable")
	return at
}
