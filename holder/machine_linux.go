package holder

import (
	"bytes"
	"os"
)

// bootID names this boot of this machine.
func bootID() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(boot))
}

// processSpace names the processes that see each other: the PID namespace, in which
// containers on one volume differ.
func processSpace() string {
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return namespace
}
