package own

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// overflowUser is the owner, in a user namespace, of what belongs to a user who has no number there
// (user_namespaces(7), /proc/sys/kernel/overflowuid).
const overflowUser = 65534

// unmapped reports whether the overflow user stands for users without a number in this namespace. In a
// sandbox or a container without root, directories of the system are theirs: they are as root's, since
// nobody in the namespace is such a user.
var unmapped = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !maps(string(text), overflowUser)
})

// maps reports whether a map of users, as in /proc/PID/uid_map, has a number.
func maps(text string, user int) bool {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		first, err := strconv.Atoi(fields[0])
		if count, cerr := strconv.Atoi(fields[2]); err == nil && cerr == nil && first <= user && user-first < count {
			return true
		}
	}
	return false
}
