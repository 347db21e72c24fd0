// Package scripts embeds the shell code that leasectl prints. The files can also be mounted
// beside leasectl, so both ways give the same code.
package scripts

import _ "embed"

// Trap is trap.sh: trap_add and trap_del, for bash 4.2 or newer.
//
//go:embed trap.sh
var Trap string

// Client is client.sh: the lease__ functions, for bash 4.2 or newer. They run
// leasectl.
//
//go:embed client.sh
var Client string
