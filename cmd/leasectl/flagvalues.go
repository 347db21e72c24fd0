package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/leaseapi"
)

// value is a flag value made of two functions. The error of set says what is allowed;
// flagError puts the flag and the value in front of it.
type value struct {
	set    func(string) error
	format func() string
	kind   string
	words  []string // all allowed values; nil: too many to list
}

func (v value) Set(s string) error { return v.set(s) }
func (v value) String() string {
	if v.format == nil { // pflag calls String on the zero value
		return ""
	}
	return v.format()
}
func (v value) Type() string { return v.kind }

// one makes v refuse a second, different value. Otherwise the first of two handles or keys would
// be ignored silently, and its lease would stay, or never be taken.
func one(v value, want string) pflag.Value {
	set, before := v.set, ""
	v.set = func(s string) error {
		if before != "" && before != s {
			return errors.New("want " + want)
		}
		before = s
		return set(s)
	}
	return v
}

// oneHandle tells users what to do instead of giving two handles.
const oneHandle = "one handle: run the command once for each"

// handleValue takes the path of a handle that acquire wrote. It refuses an empty path, as of a
// variable that is empty because acquire failed. Under an exec without a lease it accepts one,
// since there LEASECTL_HANDLE is empty.
func handleValue(p *string) pflag.Value {
	return one(stringValue(p, "path", func(s string) error {
		if s == "" && whyNoLease() == "" {
			return errors.New("want the path that acquire printed")
		}
		return nil
	}), oneHandle)
}

// newHandleValue takes the path of a handle that may not exist yet. With an empty one, nobody who names the
// handle by the same variable would release the lease.
func newHandleValue(p *string) pflag.Value {
	return one(stringValue(p, "string", func(s string) error {
		if s == "" {
			return errors.New("want a path")
		}
		return nil
	}), oneHandle)
}

// anyValue takes any text.
func anyValue(p *string) value {
	return stringValue(p, "string", func(string) error { return nil })
}

// stringValue takes text that check accepts.
func stringValue(p *string, kind string, check func(string) error) value {
	return value{
		kind:   kind,
		format: func() string { return *p },
		set: func(s string) error {
			if err := check(s); err != nil {
				return err
			}
			*p = s
			return nil
		},
	}
}

// namesValue takes names, separated by commas. A comma may end them, as it ends the output of
// tr '\n' ',' <HANDLE.
func namesValue(p *[]string) pflag.Value {
	v := listValue(p, "names separated by commas", func(name string) bool { return leaseapi.CheckName(name) == nil })
	set := v.set
	v.set = func(s string) error { return set(strings.TrimSuffix(s, ",")) }
	return v
}

// hostsValue takes names of hosts, separated by commas, without scheme, port or wildcard.
func hostsValue(p *[]string) pflag.Value {
	return listValue(p, "names of hosts, without scheme, port or wildcard, separated by commas", func(host string) bool {
		return host != "" && (!strings.ContainsAny(host, "/:@?#[]* ") || net.ParseIP(host) != nil)
	})
}

// listValue takes words that are valid, separated by commas. A second value adds to the first.
func listValue(p *[]string, want string, valid func(word string) bool) value {
	return value{
		kind:   "names",
		format: func() string { return strings.Join(*p, ",") },
		set: func(s string) error {
			for word := range strings.SplitSeq(s, ",") {
				if !valid(word) {
					return errors.New("want " + want)
				}
				*p = append(*p, word)
			}
			return nil
		},
	}
}

// durationValue takes a duration in Go's syntax, from low to high.
func durationValue(p *time.Duration, def, low, high time.Duration) pflag.Value {
	*p = def
	return value{
		kind: "duration",
		format: func() string {
			if *p == 0 { // no default: pflag leaves "" out of the help
				return ""
			}
			return leaseapi.Duration(*p).String()
		},
		set: func(s string) error {
			d, err := time.ParseDuration(s)
			if err != nil || d < low || d > high {
				return fmt.Errorf("want a duration from %s to %s, such as 90s, 20m or 1h30m", leaseapi.Duration(low), leaseapi.Duration(high))
			}
			*p = d
			return nil
		},
	}
}

// intValue takes a whole number from low to high.
func intValue(p *int, def, low, high int) value {
	*p = def
	return value{
		kind:   "int",
		format: func() string { return strconv.Itoa(*p) },
		set: func(s string) error {
			n, err := strconv.Atoi(s)
			if err != nil || n < low || n > high {
				if high == math.MaxInt32 {
					return fmt.Errorf("want a whole number from %d on", low)
				}
				return fmt.Errorf("want a whole number from %d to %d", low, high)
			}
			*p = n
			return nil
		},
	}
}

// itemsValue takes a number of items.
func itemsValue(p **int) pflag.Value {
	items := new(int)
	v := intValue(items, 0, 0, leaseapi.MaxItems)
	format, set := v.format, v.set
	v.format = func() string {
		if *p == nil {
			return ""
		}
		return format()
	}
	v.set = func(s string) error {
		*p = items
		return set(s)
	}
	return v
}

// choiceValue takes one of a few words.
func choiceValue(p *string, def string, words ...string) pflag.Value {
	*p = def
	v := stringValue(p, strings.Join(words, "|"), func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("want %s", strings.Join(words, " or "))
		}
		return nil
	})
	v.words = words
	return v
}

// codesValue takes exit codes, separated by commas. A second value adds to the first.
func codesValue(p *[]int) pflag.Value {
	return value{
		kind: "codes",
		format: func() string {
			words := make([]string, len(*p))
			for i, code := range *p {
				words[i] = strconv.Itoa(code)
			}
			return strings.Join(words, ",")
		},
		set: func(s string) error {
			codes := *p
			for word := range strings.SplitSeq(s, ",") {
				code, err := strconv.Atoi(strings.TrimSpace(word))
				if err != nil || code < 1 || code > 255 {
					return errors.New("want exit codes from 1 to 255, separated by commas, such as 4,5")
				}
				codes = append(codes, code)
			}
			*p = codes
			return nil
		},
	}
}

// regexpValue takes a regular expression.
func regexpValue(p **regexp.Regexp) value {
	return value{
		kind: "regexp",
		format: func() string {
			if *p == nil {
				return ""
			}
			return (*p).String()
		},
		set: func(s string) error {
			re, err := regexp.Compile(s)
			if err != nil {
				return fmt.Errorf("want a regular expression (RE2): %w", err)
			}
			*p = re
			return nil
		},
	}
}

// signalValue takes a signal by name, with or without SIG, or by number; none
// is 0.
func signalValue(p *syscall.Signal, def syscall.Signal) pflag.Value {
	*p = def
	return value{
		kind: "signal",
		format: func() string {
			if *p == 0 {
				return "none"
			}
			return strings.TrimPrefix(unix.SignalName(*p), "SIG")
		},
		set: func(s string) error {
			name := strings.ToUpper(s)
			if name == "NONE" {
				*p = 0
				return nil
			}
			if sig := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG")); sig != 0 {
				*p = sig
				return nil
			}
			if n, err := strconv.Atoi(s); err == nil && n > 0 && unix.SignalName(syscall.Signal(n)) != "" {
				*p = syscall.Signal(n)
				return nil
			}
			return errors.New("want a signal such as TERM, SIGINT or 15, or none")
		},
	}
}

// typeValue takes the type of a pool.
func typeValue(p *string) pflag.Value {
	return one(textValue(p, leaseapi.CheckType, fmt.Sprintf("a type of 1 to %d bytes", leaseapi.MaxName)),
		"one type: run the command once for each")
}

// alsoValue takes TYPE or TYPE=N, once for each type.
func alsoValue(p *[]leaseapi.Also) pflag.Value {
	return value{
		kind: "TYPE[=N]",
		format: func() string {
			var words []string
			for _, a := range *p {
				words = append(words, a.String())
			}
			return strings.Join(words, ", ")
		},
		set: func(s string) error {
			a, err := leaseapi.ParseAlso(s)
			if err != nil {
				return err
			}
			*p = append(*p, a)
			return nil
		},
	}
}

// keyValue takes the key of a lease.
func keyValue(p *string) pflag.Value {
	return one(textValue(p, leaseapi.CheckKey, fmt.Sprintf("a key of 1 to %d bytes", leaseapi.MaxKey)),
		"one key: run the command once for each")
}

// nameValue takes the name of a lease.
func nameValue(p *string) pflag.Value {
	return one(stringValue(p, "string", func(s string) error {
		if leaseapi.CheckName(s) != nil {
			return fmt.Errorf("want a name of 1 to %d bytes, without slash, comma, white space or control characters, that does not begin with -", leaseapi.MaxName)
		}
		return nil
	}), "one name: run the command once for each")
}

// ownerValue takes the name of an owner. If it is empty, [detectOwner] finds the owner.
func ownerValue(p *string) pflag.Value {
	return textValue(p, leaseapi.CheckOwner, fmt.Sprintf("an owner of at most %d bytes", leaseapi.MaxOwner))
}

// reasonValue takes an operator's reason.
func reasonValue(p *string) pflag.Value {
	return textValue(p, leaseapi.CheckReason, fmt.Sprintf("a reason of 1 to %d bytes", leaseapi.MaxReason))
}

// textValue takes text that ends up in a request and in other people's logs.
func textValue(p *string, check func(string) error, what string) value {
	return stringValue(p, "string", func(s string) error {
		if check(s) != nil {
			return fmt.Errorf("want %s without line breaks or control characters", what)
		}
		return nil
	})
}
