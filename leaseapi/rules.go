package leaseapi

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The rules for names, types, request ids and texts. Both sides of the wire, handles,
// configuration and command lines check them here only.

// CheckName reports why name cannot be the name of a lease. A name becomes a
// line of a file, a part of a path, a word of a shell, and one of several that
// commas separate: it has 1 to [MaxName] bytes of UTF-8, without slash, comma,
// white space, control character, or invisible one, such as those that turn the
// direction of text. It is neither "." nor "..", and does not begin with "-", as
// an option does, nor with "::", and has no "##", as commands to CI systems have.
//
// U+FFFD is refused too: JSON decoding replaces invalid UTF-8 by it.
func CheckName(name string) error {
	err := check("name", name, MaxName, func(r rune) bool {
		return r != '/' && r != ',' && r != utf8.RuneError && !unicode.IsSpace(r) && !unicode.In(r, unicode.Cc, unicode.Cf)
	})
	switch {
	case err != nil:
		return err
	case name == ".", name == "..":
		return fmt.Errorf("name %q is a directory in every path", name)
	case name[0] == '-':
		return fmt.Errorf("name %q begins with a dash, as options do", name)
	case strings.HasPrefix(name, "::"), strings.Contains(name, "##"):
		return fmt.Errorf("name %q may be a command to a CI system, with two # in a row or :: at its beginning", Printable(name))
	}
	return nil
}

// CheckType reports why typ cannot be the type of a pool: it has 1 to [MaxName]
// bytes of UTF-8, without control characters.
func CheckType(typ string) error {
	return check("type", typ, MaxName, notControl)
}

// CheckRequestID reports why id cannot be a request id. It has 1 to
// [MaxRequestID] unreserved characters, which need no escape in any part of a URL
// (RFC 3986, section 2.3). It does not begin with a dot, so that it is neither "."
// nor ".." in a path, nor a hidden file.
func CheckRequestID(id string) error {
	if err := check("request_id", id, MaxRequestID, unreserved); err != nil {
		return err
	}
	if id[0] == '.' {
		return fmt.Errorf("request_id %q begins with a dot", id)
	}
	return nil
}

// CheckOwner reports why owner cannot be an owner: it has at most [MaxOwner]
// bytes of UTF-8, without control characters. It may be empty.
func CheckOwner(owner string) error {
	if owner == "" {
		return nil
	}
	return check("owner", owner, MaxOwner, notControl)
}

// CheckToken reports why token cannot be the secret that a client shows to a proxy. A
// token is a word of a header and of a file, so it has printable ASCII only, without
// spaces. It may be empty. The error does not show the token.
func CheckToken(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the token holds white space or characters outside printable ASCII")
	}
	return nil
}

// CheckKey reports why key cannot be the key of a lease: it has 1 to [MaxKey]
// bytes of UTF-8, without control characters.
func CheckKey(key string) error {
	return check("key", key, MaxKey, notControl)
}

// CheckVariant reports why variant cannot be the variant of a request: it has 1 to
// [MaxVariant] bytes of UTF-8, without control characters.
func CheckVariant(variant string) error {
	return check("variant", variant, MaxVariant, notControl)
}

// CheckUnit reports why unit cannot be the unit of a pool, such as 1Mi: it has 1 to
// [MaxName] bytes of UTF-8, without control characters.
func CheckUnit(unit string) error {
	return check("unit", unit, MaxName, notControl)
}

// CheckItems reports why items cannot be the number of items of a request: it is 0 to
// [MaxItems].
func CheckItems(items int) error {
	if items < 0 || items > MaxItems {
		return fmt.Errorf("items %d: want 0 to %d", items, MaxItems)
	}
	return nil
}

// CheckTTL reports why ttl cannot be that of a lease: it is [MinTTL] at least, or zero, which says none.
func CheckTTL(ttl time.Duration) error {
	switch {
	case ttl < 0:
		return fmt.Errorf("ttl %v is negative", ttl)
	case ttl > 0 && ttl < MinTTL:
		return fmt.Errorf("ttl %v is too short: a lease lasts %v at least", ttl, MinTTL)
	}
	return nil
}

// CheckPriority reports why priority cannot be that of a request: it is -[MaxPriority] to
// [MaxPriority].
func CheckPriority(priority int) error {
	if priority < -MaxPriority || priority > MaxPriority {
		return fmt.Errorf("priority %d: want -%d to %d", priority, MaxPriority, MaxPriority)
	}
	return nil
}

// CheckDetail reports why detail cannot be the detail of a report: it has at most
// [MaxDetail] bytes of UTF-8, without control characters. It may be empty.
func CheckDetail(detail string) error {
	if detail == "" {
		return nil
	}
	return check("detail", detail, MaxDetail, notControl)
}

// CheckOutcome reports why outcome is neither [OutcomeOK] nor [OutcomeThrottled].
func CheckOutcome(outcome string) error {
	if outcome != OutcomeOK && outcome != OutcomeThrottled {
		return fmt.Errorf("outcome %q: want %s or %s", Shorten(outcome), OutcomeOK, OutcomeThrottled)
	}
	return nil
}

// CheckReason reports why reason cannot be an operator's reason: it has 1 to
// [MaxReason] bytes of UTF-8, without control characters.
func CheckReason(reason string) error {
	return check("reason", reason, MaxReason, notControl)
}

// OneTypo reports whether a and b differ by one typing error: a byte that is missing,
// added or replaced, or two neighbours that are swapped.
func OneTypo(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	swapped := len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
	return len(a)+len(b) == 1 || len(a) == 1 && len(b) == 1 || swapped
}

func unreserved(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.~", r)
}

func notControl(r rune) bool { return !unicode.IsControl(r) }

func check(what, text string, most int, allowed func(rune) bool) error {
	switch {
	case text == "":
		return fmt.Errorf("%s is empty", what)
	case len(text) > most:
		return fmt.Errorf("%s %.20q… is %d bytes long: at most %d", what, text, len(text), most)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s %q is not valid UTF-8", what, text)
	}
	for _, r := range text {
		if !allowed(r) {
			return fmt.Errorf("%s %q contains %q", what, text, r)
		}
	}
	return nil
}

// Printable makes foreign text safe for one line of a terminal or a log: control and
// invisible characters become spaces, and runs of white space become one space. A space
// comes between two number signs: GitHub's runner, Azure Pipelines and TeamCity take
// ##[…], ##vso[…] and ##teamcity[…] for their commands wherever they stand in a line.
func Printable(text string) string {
	visible := func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}
	text = strings.Join(strings.Fields(strings.Map(visible, strings.ToValidUTF8(text, "?"))), " ")
	for strings.Contains(text, "##") {
		text = strings.ReplaceAll(text, "##", "# #")
	}
	return text
}

// Clip returns the [Printable] form of text, cut to at most most bytes, and never
// within a character.
func Clip(text string, most int) string {
	text = Printable(text)
	if len(text) > most {
		text = strings.TrimSpace(strings.ToValidUTF8(text[:most], ""))
	}
	return text
}

// Shorten returns text for the error that refuses it. Text of up to 256 bytes, which
// could be a name or a type, stays whole; longer text is cut to its beginning and an
// ellipsis.
func Shorten(text string) string {
	const whole, shown = 256, 60
	if len(text) <= whole {
		return text
	}
	end := shown
	for end > shown-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
