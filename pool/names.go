package pool

import (
	"strconv"
	"strings"
)

// Numbered returns the names of a pool whose n resources have none of their own:
// typ-0 to typ-(n-1).
func Numbered(typ string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = madeUp(typ, i)
	}
	return names
}

// lastMadeUp is the last K of the names TYPE-K of a counted pool; the next is 1
// again. A lease is over and forgotten long before its name comes again.
const lastMadeUp = 1_000_000

// madeUp returns the name typ-k.
func madeUp(typ string, k int) string { return typ + "-" + strconv.Itoa(k) }

// MadeUpFor returns the type of the counted pool that would make up this name; "" if none
// would.
func MadeUpFor(name string) (typ string) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 || i == len(name)-1 || strings.Trim(name[i+1:], "0123456789") != "" {
		return ""
	}
	return name[:i]
}
