package child

import "os"

// maxRSSUnit is the unit of ru_maxrss (getrusage(2)), in bytes.
const maxRSSUnit = 1024

// cgroupOfOurOwn returns the directory of the cgroup that this process has to
// itself, and that its command will be in; "" if there is none.
func cgroupOfOurOwn() string {
	cgroups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return ownCgroup("/sys/fs/cgroup", string(cgroups), os.Getpid())
}
