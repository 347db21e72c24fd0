// Command leasectl takes leases from an HTTP lease proxy for CI shell steps,
// holds them as long as they are needed, and gives them back however the step
// ends.
//
// This package is flags, environment, printing and exit codes; the life of a
// lease is in package holder, and what exec does around its command in package
// supervisor. Each command stands in the file of its name. From the top down:
// main.go, root.go (the program: its commands, its end), a file a command
// (serve goes on in listen.go, settings.go and reload.go), and what they share:
// takeflags.go, pidflags.go, exitcode.go, app.go (streams and messages),
// waitline.go, messengerlog.go, messenger.go, proxyflags.go, flags.go.
package main

import (
	"os"
)

func main() {
	growStack(0)
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
