// Command leasectl takes leases from an HTTP lease proxy for CI shell steps,
// holds them as long as they are needed, and gives them back however the step
// ends.
//
// This package is flags, environment, printing and exit codes; the life of a
// lease is in package holder, and what exec does around its command in package
// supervisor. From the top down:
//
//   - main.go and root.go: the program, its commands, its end, its exit code (exitcode.go);
//   - a file for each command, of its name (reacquire is in acquire.go, resume in
//     pause.go, and keeper.go is what acquire starts); serve and status go on in the
//     files that begin with their name;
//   - what commands share: takeflags.go, sharedflags.go and coalesceflags.go (of what
//     takes a lease), operator.go and askpools.go (of calls that do not), pidflags.go,
//     args.go, owner.go;
//   - app.go (streams and messages), waitline.go, messengerlog.go, messenger.go;
//   - proxyflags.go, poolflags.go, flagvalues.go, flags.go, variables.go (flags from the
//     environment);
//   - help.go, topics.go, complete.go, build.go (the version).
package main

import (
	"os"

	_ "github.com/leasectl/leasectl/cmd/leasectl/stack" // a larger one for main
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
