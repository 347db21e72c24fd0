// Command leasectl takes leases from an HTTP lease proxy for CI shell steps,
// holds them as long as they are needed, and gives them back however the step
// ends.
//
// This package has the flags, the environment, printing and exit codes. The life of a lease is in
// package holder; package supervisor runs the command of exec. From the top down:
//
//   - main.go and root.go: the program, its commands, its end, its exit code (exitcode.go);
//   - a file for each command, named after it (reacquire is in acquire.go, resume in
//     pause.go; keeper.go is the background process that acquire and release start);
//     serve and status go on in the files that begin with their name, demo in a package;
//   - shared by commands: takeflags.go, sharedflags.go and coalesceflags.go (for commands that
//     take a lease), operator.go and askpools.go (for calls that take none), pidflags.go,
//     args.go, owner.go;
//   - app.go (streams and messages), waitline.go (a line that is overwritten); package console
//     writes them;
//   - proxyflags.go, poolflags.go, flagvalues.go, flags.go, variables.go (flags from the
//     environment);
//   - help.go, topics.go, complete.go, build.go (the version).
package main

import (
	"io"
	"log"
	"os"

	_ "github.com/leasectl/leasectl/cmd/leasectl/early" // is initialised before other packages
)

func main() {
	// net/http logs bytes that a connection has too many: the client notices those itself, and
	// nothing may wait for stderr.
	log.SetOutput(io.Discard)
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
