package postgres

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// IsURL reports whether s is meant for [CheckURL] and not as a directory. That includes URLs that
// lack a slash: a directory of that name would be made silently. A directory of such a name is
// ./NAME.
func IsURL(s string) bool {
	scheme, _, found := strings.Cut(s, ":")
	return found && (strings.EqualFold(scheme, "postgres") || strings.EqualFold(scheme, "postgresql"))
}

// CheckURL returns an error if s is no postgres://[USER@]HOST[:PORT][,HOST…]/DB?…, as libpq takes
// it, or has a password in it, which everybody on the machine could read. The error does not repeat
// the password.
func CheckURL(s string) error {
	scheme, rest, found := strings.Cut(s, "://")
	if !found || scheme != "postgres" && scheme != "postgresql" {
		return errors.New("want postgres://USER@HOST[:PORT]/DB; a directory of such a name is ./NAME")
	}
	authority, _, _ := strings.Cut(rest, "/")
	authority, _, _ = strings.Cut(authority, "?")
	user, _, hasUser := cutLast(authority, "@")
	_, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("want postgres://USER@HOST[:PORT]/DB?NAME=VALUE&…: the part after the question mark is no such list")
	}
	if hasUser && strings.Contains(user, ":") || values.Has("password") || values.Has("sslpassword") {
		return errors.New("want a URL without a password, which everybody on this machine could read: write it into a file (PGPASSFILE, or ~/.pgpass)")
	}
	if _, err := pgconn.ParseConfig(s); err != nil {
		return fmt.Errorf("want postgres://USER@HOST[:PORT]/DB: %w", err)
	}
	return nil
}

// cutLast is [strings.Cut] at the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// DefaultSchema is where the tables are.
const DefaultSchema = "leasectl"

// CheckSchema returns an error unless name can be the name of a schema that needs no quotes.
func CheckSchema(name string) error {
	valid, err := regexp.MatchString(`^[a-z_][a-z0-9_]{0,46}$`, name)
	if err != nil || !valid || strings.HasPrefix(name, "pg_") {
		return fmt.Errorf("%q: want a name of a-z, 0-9 and _, of at most 47 bytes, that begins with neither a digit nor pg_", name)
	}
	return nil
}
