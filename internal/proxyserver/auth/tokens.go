package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// Sum is the SHA-256 of a secret.
type Sum [sha256.Size]byte

// Token is a secret of the server's file, which lets its bearer in. Several tokens may have the
// same name, so that a secret can be replaced without losing leases.
type Token struct {
	Name string
	Sum  Sum
	Rights
}

// Caller returns who shows the token.
func (t Token) Caller() Caller { return Caller{Name: t.Name, Rights: t.Rights} }

// minSecret is the least length of a secret in bytes: 16 hexadecimal digits are just enough that
// it cannot be guessed over a network.
const minSecret = 16

// maxName is the greatest length of a token's name in bytes. The name stands beside the owner in
// logs and tables.
const maxName = 64

// SumOf returns the sum of a secret, or an error if it could be guessed or could not stand in a
// header. The error does not show the secret.
func SumOf(secret string) (Sum, error) {
	if err := leaseapi.CheckToken(secret); err != nil {
		return Sum{}, err
	}
	if len(secret) < minSecret {
		return Sum{}, fmt.Errorf("the token is %d bytes long, which can be guessed: at least %d, such as of openssl rand -hex 16", len(secret), minSecret)
	}
	return sha256.Sum256([]byte(secret)), nil
}

// ParseSum reads a sum as sha256sum prints it: 64 hexadecimal digits.
func ParseSum(text string) (s Sum, err error) {
	sum, err := hex.DecodeString(text)
	switch {
	case err != nil || len(sum) != len(s):
		return s, errors.New("want the 64 hexadecimal digits that printf %s SECRET | sha256sum prints")
	case Sum(sum) == sha256.Sum256(nil):
		return s, errors.New("it is the sum of an empty text: was the variable with the secret set?")
	}
	return Sum(sum), nil
}

// CheckName refuses a token's name that could not stand before an owner in logs, tables and
// records.
func CheckName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("the name is %d bytes long: at most %d", len(name), maxName)
	}
	if leaseapi.CheckOwner(name) != nil {
		return fmt.Errorf("the name %q has control characters, or is not UTF-8", name)
	}
	if strings.HasSuffix(name, ":") { // other files of users have a colon there
		return fmt.Errorf("the name %q ends in a colon: write the name, a blank, and the token", name)
	}
	return nil
}

// find returns the token of a secret. A secret that could be guessed matches nothing, not even its
// sum in the file. The time that find takes tells nothing about the tokens: it compares sums, always
// all of them, and each in constant time.
func find(tokens []Token, secret string) (found Token, ok bool) {
	if len(secret) < minSecret {
		return Token{}, false
	}
	sum := sha256.Sum256([]byte(secret))
	for _, t := range tokens {
		if subtle.ConstantTimeCompare(t.Sum[:], sum[:]) == 1 {
			found, ok = t, true
		}
	}
	return found, ok
}
