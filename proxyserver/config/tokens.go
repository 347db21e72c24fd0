package config

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// Token lets its bearer in. Several tokens may have the same name, so that a token can be
// replaced without losing leases.
type Token struct {
	Name string
	Role Role

	sum [sha256.Size]byte
}

// Role is what the bearer of a token may do.
type Role string

// The roles.
const (
	RoleUser  Role = ""      // acquires, renews and releases leases of its own, and sees all
	RoleRead  Role = "read"  // sees all, and changes nothing
	RoleAdmin Role = "admin" // may operate the server too: break, remove, pause, resume, back up
)

// minToken is the least length of a token in bytes: 16 hexadecimal digits are just enough that
// a token cannot be guessed over a network.
const minToken = 16

// Tokens are the tokens that a server accepts; nil means that the server asks for none.
type Tokens []Token

// maxTokenName is the greatest length of a token's name in bytes. The name stands beside the
// owner in logs and tables.
const maxTokenName = 64

// ParseTokens reads a file of tokens, one a line; name is the name of the file, for errors.
// Empty lines, and lines that begin with #, are ignored:
//
//	# who     what                              role
//	nightly   ddbb6f0c4ec7a1c7b56ee0e4c0a86e25
//	oncall    7b1c2c2fd3a1a1c8b4d7a6c1b1f0e9d3  admin
//	board     91d07f6e2a4b88c0f3c1f5a0e6d2b749  read
//
// A file without tokens is an error, since nobody could get in. The error joins up to ten
// errors of the form "name:line: text", and never shows a token.
func ParseTokens(name string, data []byte) (Tokens, error) {
	var tokens Tokens
	var errs []error
	lines := make(map[[sha256.Size]byte]int)
	text := strings.TrimPrefix(string(data), "\ufeff") // some editors begin UTF-8 with this mark
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		t, err := parseToken(fields)
		if first, twice := lines[t.sum]; err == nil && twice {
			err = fmt.Errorf("the token is already in line %d", first)
		}
		if err != nil {
			if len(errs) < maxErrors {
				errs = append(errs, fmt.Errorf("%s:%d: %w", name, i+1, err))
			}
			continue
		}
		lines[t.sum] = i + 1
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

func parseToken(fields []string) (Token, error) {
	switch {
	case len(fields) == 1:
		return Token{}, errors.New("want a name, a token, and admin, read or nothing")
	case len(fields) > 3:
		return Token{}, errors.New("after the name and the token there may only be the word admin or read")
	}
	role := RoleUser
	if len(fields) == 3 {
		if role = Role(fields[2]); role != RoleAdmin && role != RoleRead {
			return Token{}, errors.New("after the name and the token there may only be the word admin or read")
		}
	}
	if err := checkTokenName(fields[0]); err != nil {
		return Token{}, err
	}
	if err := leaseapi.CheckToken(fields[1]); err != nil {
		return Token{}, err
	}
	if len(fields[1]) < minToken {
		return Token{}, fmt.Errorf("the token is %d bytes long, which can be guessed: at least %d, such as of openssl rand -hex 16", len(fields[1]), minToken)
	}
	return Token{Name: fields[0], Role: role, sum: sha256.Sum256([]byte(fields[1]))}, nil
}

// checkTokenName refuses a name that could not stand before an owner in logs, tables
// and records.
func checkTokenName(name string) error {
	if len(name) > maxTokenName {
		return fmt.Errorf("the name is %d bytes long: at most %d", len(name), maxTokenName)
	}
	if leaseapi.CheckOwner(name) != nil {
		return fmt.Errorf("the name %q has control characters, or is not UTF-8", name)
	}
	if strings.HasSuffix(name, ":") { // other files of users have a colon there
		return fmt.Errorf("the name %q ends in a colon: write the name, a blank, and the token", name)
	}
	return nil
}

// Find returns the token in the value of an Authorization header (RFC 6750, section 2.1). The
// time that it takes tells nothing about the tokens: it compares checksums, always all of them,
// and each in constant time.
func (ts Tokens) Find(authorization string) (found Token, ok bool) {
	scheme, shown, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return Token{}, false
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(shown)))
	for _, t := range ts {
		if subtle.ConstantTimeCompare(t.sum[:], sum[:]) == 1 {
			found, ok = t, true
		}
	}
	return found, ok
}
