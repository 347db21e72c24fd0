package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// What goes to stdout is data for scripts. A failed write is an error of the
// command, or the caller's shell would go on without the data.

func (a *app) print(format string, args ...any) error {
	if _, err := fmt.Fprintf(a.stdout, format, args...); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}

// printLines prints one line each, in one write.
func (a *app) printLines(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return a.print("%s\n", strings.Join(lines, "\n"))
}

func (a *app) printJSON(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	return a.print("%s\n", text)
}

// emptyNotNull makes nil an empty list, for JSON.
func emptyNotNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
