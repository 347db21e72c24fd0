package lockfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// checkNames refuses names that could not stand on a line of their own, or that are dangerous
// when a script uses them as part of a path.
func checkNames(names []string) error {
	for _, name := range names {
		if err := leaseapi.CheckName(name); err != nil {
			return fmt.Errorf("lease %w", err)
		}
	}
	return nil
}

// parseNames returns the names in data, one a line. It accepts the CR that editors of other
// systems leave at the end of lines, and blank lines. The error says which line is the first
// that is no name; the names of the other lines are returned all the same.
func parseNames(data []byte) ([]string, error) {
	var names []string
	var bad error
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		name := nameOn(line)
		if strings.TrimSpace(name) == "" {
			continue
		}
		if leaseapi.CheckName(name) != nil {
			// Without the text of the line: the file may be any file, with secrets in it.
			bad = cmp.Or(bad, fmt.Errorf("line %d is no name of a lease", number))
			continue
		}
		names = append(names, name)
	}
	return names, bad
}

// nameOn returns a line without its line end.
func nameOn(line string) string {
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
}

// formatNames is the inverse of parseNames. It never returns nil.
func formatNames(names []string) []byte {
	data := []byte{}
	for _, name := range names {
		data = append(append(data, name...), '\n')
	}
	return data
}

// sameNames reports whether a and b hold the same names, in any order: a
// handle that somebody sorted is still the same handle.
func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
