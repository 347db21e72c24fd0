package child

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Peak is the most memory that a command and its descendants used.
type Peak struct {
	Bytes int64
	// Cgroup: it is what all of them used together, and this process, as the
	// cgroup v2 that they had to themselves tells. Otherwise it is the resident
	// memory of the largest of them, as wait4(2) tells: no less than that of this
	// process when it started the command, and without those that nobody waited for.
	Cgroup bool
}

// Peak returns the peak memory of the command after its end; false before, if
// [Command.Peak] was not set, or if the system does not tell.
func (p *Process) Peak() (Peak, bool) {
	select {
	case <-p.done:
	default:
		return Peak{}, false
	}
	return p.peak, p.peak.Bytes > 0
}

// peakOf returns the peak of a command that ended with usage, in a cgroup of its own
// with that directory; "" if it had none.
func peakOf(cgroup string, usage unix.Rusage) Peak {
	if cgroup != "" {
		text, err := os.ReadFile(filepath.Join(cgroup, "memory.peak"))
		if n, parsed := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && parsed == nil {
			return Peak{Bytes: n, Cgroup: true}
		}
	}
	return Peak{Bytes: int64(usage.Maxrss) * maxRSSUnit}
}

// ownCgroup returns the directory of the cgroup v2 of process pid, whose file in
// /proc says cgroups, if nobody else is in it; "" if there is none.
func ownCgroup(mount, cgroups string, pid int) string {
	for line := range strings.Lines(cgroups) {
		path, v2 := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::/")
		if !v2 {
			continue
		}
		dir := filepath.Join(mount, path)
		members, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err == nil && strings.TrimSpace(string(members)) == strconv.Itoa(pid) {
			return dir
		}
	}
	return ""
}
