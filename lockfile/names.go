package lockfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the longest name of a lease on the wire, in bytes.
const maxName = 255

// checkName refuses what could not stand on a line of its own, or would be
// dangerous where a script uses a name as part of a path.
func checkName(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return errors.New("a lease name is empty")
	case len(name) > maxName:
		return fmt.Errorf("lease name %.20q… is longer than %d bytes", name, maxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("lease name %q is not valid UTF-8", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("lease name %q has a control character in it", name)
	case strings.Contains(name, "/"):
		return fmt.Errorf("lease name %q has a slash in it", name)
	}
	return nil
}

func checkNames(names []string) error {
	for _, name := range names {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return nil
}

// parseNames returns the names in data, one a line. Editors on other systems
// leave a CR at the end of lines, and people leave blank ones: both are fine.
// Lines that are no names are reported in the error, all of them; the names
// are good nevertheless.
func parseNames(data []byte) ([]string, error) {
	var names []string
	var errs []error
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		name := nameOn(line)
		if strings.TrimSpace(name) == "" {
			continue
		}
		if err := checkName(name); err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		names = append(names, name)
	}
	return names, errors.Join(errs...)
}

// nameOn returns a line without its end.
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
