// Command leasectl takes leases from an HTTP lease proxy for CI shell steps,
// holds them as long as they are needed, and gives them back however the step
// ends.
//
// Each command stands in the file of its name. What they share: app.go (the
// program's streams, messages and exit), flags.go (flag values and their
// environment), exitcode.go (the table of exit codes), proxy.go and local.go
// (which proxy to talk to), take.go and giveback.go (the life of a lease
// behind a handle), journal.go (what a killed run leaves to others),
// startkeeper.go (the process that outlives a command), wait.go (what a waiting
// user is told). exec goes on in tend.go, keeper in keeperrelease.go, serve in
// listen.go, settings.go and reload.go.
package main

import (
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
