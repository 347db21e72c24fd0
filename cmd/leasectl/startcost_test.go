package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Packages that only a server needs, and that have nothing to make when the program
// begins, stay so: each command would pay for it.
func TestStartMakesNothingForTheServer(t *testing.T) {
	t.Parallel()
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
	for _, name := range []string{"pool", "proxyserver/promtext", "proxyserver/store", "proxyserver/store/record", "proxyserver/store/etcd", "proxyserver/config"} {
		if strings.Contains(trace.String(), "init github.com/leasectl/leasectl/"+name+" @") {
			t.Errorf("%s makes something at the start of every command", name)
		}
	}
}
