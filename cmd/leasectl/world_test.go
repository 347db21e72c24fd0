package main

import (
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// A world is a clitest.World. Files of tests add methods to it.
type world struct{ *clitest.World }

func newWorld(t *testing.T, program string, pools ...string) *world {
	t.Helper()
	return &world{clitest.NewWorld(t, program, pools...)}
}

func newWorldOf(t *testing.T, program string, serve ...string) *world {
	t.Helper()
	return &world{clitest.NewWorldOf(t, program, serve...)}
}

func newBareWorld(t *testing.T, program string) *world {
	t.Helper()
	return &world{clitest.NewBareWorld(t, program)}
}
