package child

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Peak is the most memory that a command and its descendants used.
type Peak struct {
	Bytes int64
	// Cgroup says that Bytes is the memory that all of them used together with this process,
	// from the cgroup v2 that they had to themselves. Otherwise Bytes is the resident memory of
	// the largest of them, from wait4(2): at least that of this process when it started the
	// command, and without processes that nobody waited for.
	Cgroup bool
}

// peakOf returns the peak of a command whose largest process used largest bytes. cgroup is the
// directory of the cgroup that the command had to itself; "" if it had none.
func peakOf(cgroup string, largest int64) Peak {
	if cgroup != "" {
		text, err := os.ReadFile(filepath.Join(cgroup, "memory.peak"))
		if n, parsed := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && parsed == nil {
			return Peak{Bytes: n, Cgroup: true}
		}
	}
	return Peak{Bytes: largest}
}

// ownCgroup returns the directory of the cgroup v2 of process pid if no other process is in it;
// otherwise "". cgroups is the content of the process's cgroup file in /proc.
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
