package leaseapi

import (
	"math"
	"strconv"
	"strings"
)

// unitSuffixes are the suffixes of quantities of memory, as Kubernetes writes them.
var unitSuffixes = map[string]int64{
	"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
}

// unitBytes returns the number of bytes in the unit of a pool, such as 1Mi or 512k. ok is
// false if the unit is not a quantity of memory, or more than an int64 holds.
func unitBytes(unit string) (bytes int64, ok bool) {
	digits := len(unit) - len(strings.TrimLeft(unit, "0123456789"))
	n, err := strconv.ParseInt(unit[:digits], 10, 32)
	factor, known := unitSuffixes[unit[digits:]]
	if err != nil || !known || n == 0 || n > math.MaxInt64/factor {
		return 0, false
	}
	return n * factor, true
}

// IsMemory reports whether the unit of a pool is a number of bytes, so that its leases
// can be compared with the memory that their commands use.
func IsMemory(unit string) bool {
	_, ok := unitBytes(unit)
	return ok
}

// InUnits returns an amount of memory in the unit of a pool, rounded up, or "-" if the
// unit is not a quantity of memory.
func InUnits(bytes int64, unit string) string {
	size, memory := unitBytes(unit)
	if !memory {
		return "-"
	}
	units := bytes / size
	if bytes%size > 0 {
		units++
	}
	return strconv.FormatInt(units, 10)
}
