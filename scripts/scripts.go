// Package scripts holds the shell code that leasectl prints: the very files
// that can also be mounted beside it, so that the two are always the same.
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
