package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Packages that only a server needs initialise nothing at the start of the program, since each
// command would pay for it.
func TestStartMakesNothingForTheServer(t *testing.T) {
	t.Parallel()
	trace := startTrace(t)
	for _, name := range []string{"pool", "proxyserver/promtext", "proxyserver/store", "proxyserver/store/record", "proxyserver/store/bolt", "proxyserver/store/etcd", "proxyserver/config"} {
		if strings.Contains(trace, initOf(name)) {
			t.Errorf("%s makes something at the start of every command", name)
		}
	}
}

// Package stack is initialised before regular expressions are compiled, which would make the stack
// grow.
func TestStackIsMadeFirst(t *testing.T) {
	t.Parallel()
	before, after, found := strings.Cut(startTrace(t), initOf("cmd/leasectl/stack"))
	if !found {
		t.Fatalf("the stack is not made:\n%s", before)
	}
	for _, name := range []string{"regexp", "github.com/hashicorp/go-retryablehttp", "go.yaml.in/yaml/v3"} {
		if !strings.Contains(after, "init "+name+" @") {
			t.Errorf("%s is not initialised after the stack is made:\n%s", name, before)
		}
	}
}

// initOf returns the beginning of the trace's line about a package of ours.
func initOf(name string) string { return "init " + module + name + " @" }

// startTrace returns the runtime's trace of the initialisation of packages, in their order.
func startTrace(t *testing.T) string {
	cmd := exec.Command(build(t, ""), "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(trace.String(), "init net/http @") {
		t.Fatalf("the runtime does not tell what is made:\n%s", &trace)
	}
	return trace.String()
}
