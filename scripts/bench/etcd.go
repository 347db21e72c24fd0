package main

import (
	"context"
	"io"
	"net/http"
	"os/exec"
	"strings"
)

// etcd starts an etcd of one member, the closest to one lease proxy: durable, on loopback,
// without peers.
func (w *world) etcd(ctx context.Context) (*server, error) {
	client, err := freeAddress()
	if err != nil {
		return nil, err
	}
	peer, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s, err := w.launch(ctx, "etcd", "--data-dir", w.fresh("etcd"), "--log-level", "warn",
		"--listen-client-urls", "http://"+client, "--advertise-client-urls", "http://"+client,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer,
		"--initial-cluster", "default=http://"+peer)
	if err != nil {
		return nil, err
	}
	s.addr, s.url = client, "http://"+client
	err = s.ready(ctx, func() (bool, error) {
		resp, err := http.Get(s.url + "/health")
		if err != nil {
			return false, nil // not yet
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode == http.StatusOK, err
	})
	if err != nil {
		return nil, s.failed(err)
	}
	return s, nil
}

// packages names the Debian package of each program that we compare with.
var packages = map[string]string{
	"curl": "curl", "etcd": "etcd-server", "etcdctl": "etcd-client",
	"flock": "util-linux", "jq": "jq", "redis-server": "redis-server", "sem": "parallel",
}

// lacks says which packages to install for the programs that are missing; empty if all are
// there.
func lacks(programs ...string) string {
	var names []string
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			names = append(names, packages[program])
		}
	}
	if names == nil {
		return ""
	}
	return "install " + strings.Join(names, " ")
}
