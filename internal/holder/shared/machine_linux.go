package shared

import (
	"bytes"
	"os"
)

// bootID names this boot of the machine.
func bootID() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(boot))
}

// processSpace names the processes that see each other and whose clocks agree, by two
// namespaces. The PID namespaces of containers on one volume differ. The time namespace is left
// out if it is the machine's first: in another one CLOCK_BOOTTIME has an offset of its own
// (time_namespaces(7)), and the deadline of a round would mean another moment.
func processSpace() string {
	space, _ := os.Readlink("/proc/self/ns/pid")
	if clocks, _ := os.Readlink("/proc/self/ns/time"); clocks != firstTimeSpace {
		space += clocks
	}
	return space
}

// firstTimeSpace is the time namespace that a machine boots with (PROC_TIME_INIT_INO
// of the kernel).
const firstTimeSpace = "time:[4026531834]"
