package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/leasectl/leasectl/internal/proxyserver/auth"
)

// ParseTokens reads a file of tokens, one a line; name is the name of the file, for errors.
// Empty lines, and lines that begin with #, are ignored:
//
//	# who     what                              role
//	nightly   ddbb6f0c4ec7a1c7b56ee0e4c0a86e25
//	oncall    7b1c2c2fd3a1a1c8b4d7a6c1b1f0e9d3  admin
//	board     91d07f6e2a4b88c0f3c1f5a0e6d2b749  read
//	images    0c6b8e4f9d2a7135be0f44ad9c81e672  overcommit
//
// A file without tokens is an error, since nobody could get in. The error joins up to ten
// errors of the form "name:line: text", and never shows a token.
func ParseTokens(name string, data []byte) ([]auth.Token, error) {
	var tokens []auth.Token
	var errs []error
	lines := make(map[auth.Sum]int)
	text := strings.TrimPrefix(string(data), "\ufeff") // some editors begin UTF-8 with this mark
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		t, err := parseToken(fields)
		if first, twice := lines[t.Sum]; err == nil && twice {
			err = fmt.Errorf("the token is already in line %d", first)
		}
		if err != nil {
			if len(errs) < maxErrors {
				errs = append(errs, fmt.Errorf("%s:%d: %w", name, i+1, err))
			}
			continue
		}
		lines[t.Sum] = i + 1
		tokens = append(tokens, t)
	}
	switch {
	case len(errs) > 0:
		return nil, errors.Join(errs...)
	case len(tokens) == 0:
		return nil, fmt.Errorf("%s: there is no token in it", name)
	}
	return tokens, nil
}

func parseToken(fields []string) (t auth.Token, err error) {
	if len(fields) == 1 {
		return t, errors.New("want a name, a token, and admin, read, overcommit or nothing")
	}
	for _, word := range fields[2:] {
		switch {
		case word == overcommitWord && !t.Overcommit:
			t.Overcommit = true
		case t.Role == auth.RoleJob && (auth.Role(word) == auth.RoleAdmin || auth.Role(word) == auth.RoleRead):
			t.Role = auth.Role(word)
		default:
			return t, errors.New("after the name and the token there may only be the words admin or read, and overcommit")
		}
	}
	t.Name = fields[0]
	if err := auth.CheckName(t.Name); err != nil {
		return t, err
	}
	t.Sum, err = auth.SumOf(fields[1])
	return t, err
}

// overcommitWord gives the right to ask for overcommit.
const overcommitWord = "overcommit"
