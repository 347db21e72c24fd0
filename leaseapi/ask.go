package leaseapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
)

// Ask is what a request asks for: a command line says it, a handle keeps it, and an acquire carries it
// to a server. This file says what its parts are, how each is written and read, and which go together.
// The zero value of a part is that it is not said.
//
// It has no methods, since what embeds it would have them, too.
type Ask struct {
	Type string `json:"type,omitempty"`
	// Count is how many leases, granted all or none; of a counted pool, how many units of one lease.
	Count int `json:"count,omitempty"`
	// Items, if HasItems is set, is how many things the lease is for, instead of a Count: the cost of a
	// counted pool turns items into units.
	Items    int  `json:"items,omitempty"`
	HasItems bool `json:"has_items,omitempty"`
	// No two leases of a pool have the same Key, unless both read it: see KeyMode, which is [KeyRead] or
	// [KeyWrite], and the latter if it is empty.
	Key     string `json:"key,omitempty"`
	Name    string `json:"name,omitempty"` // of a listed pool: this one and no other
	KeyMode string `json:"key_mode,omitempty"`
	// Also are other types to take leases of in the same grant, all or none. All else is about Type.
	Also []Also `json:"also,omitempty"`
	// Coalesce is how the request merges with others of its Key: [CoalesceJoin] and so on. Variant says
	// what its run does.
	Coalesce string `json:"coalesce,omitempty"`
	Variant  string `json:"variant,omitempty"`
	Priority int    `json:"priority,omitempty"` // how many steps it goes ahead in the queue
	// Overcommit asks for the lease although the pool is full or paused.
	Overcommit bool `json:"overcommit,omitempty"`
}

// part is a part of an Ask that version 1 does not know, and its parameter.
type part struct {
	param string
	what  string                // the part, for people
	write func(a *Ask) []string // nil: it is not there
	read  func(a *Ask, values []string) error
	check func(a *Ask) error // what is wrong with the part alone, once those above it are read
}

// parts are all but Type and Count. Where several are there, an error names the first.
var parts = []part{
	{ParamAlso, "leases of several types at once",
		func(a *Ask) (values []string) {
			for _, other := range a.Also {
				values = append(values, other.String())
			}
			return values
		},
		func(a *Ask, values []string) error {
			for _, value := range values {
				other, err := ParseAlso(value)
				if err != nil {
					return InvalidParam(ParamAlso, err.Error())
				}
				a.Also = append(a.Also, other)
			}
			return nil
		},
		func(a *Ask) (err error) {
			for _, other := range a.Also {
				err = cmp.Or(err, CheckType(other.Type))
			}
			if err = cmp.Or(err, CheckAlso(a.Type, a.Also)); err != nil {
				return InvalidParam(ParamAlso, err.Error())
			}
			return nil
		}},
	{ParamName, "a lease of a certain name",
		func(a *Ask) []string { return said(a.Name) },
		func(a *Ask, values []string) error { a.Name = values[0]; return nil },
		func(a *Ask) error { return CheckName(a.Name) }},
	{ParamPriority, "a priority",
		func(a *Ask) []string {
			if a.Priority == 0 {
				return nil
			}
			return said(strconv.Itoa(a.Priority))
		},
		func(a *Ask, values []string) error { return readInt(&a.Priority, ParamPriority, values) },
		func(a *Ask) error { return CheckPriority(a.Priority) }},
	{ParamKeyMode, "a key that is read",
		func(a *Ask) []string {
			if a.KeyMode == KeyWrite { // which is meant anyway
				return nil
			}
			return said(a.KeyMode)
		},
		func(a *Ask, values []string) error { a.KeyMode = values[0]; return nil },
		func(a *Ask) error {
			if a.KeyMode != KeyRead && a.KeyMode != KeyWrite {
				return InvalidParam(ParamKeyMode, a.KeyMode)
			}
			return nil
		}},
	{ParamKey, "a key",
		func(a *Ask) []string { return said(a.Key) },
		func(a *Ask, values []string) error { a.Key = values[0]; return nil },
		func(a *Ask) error { return CheckKey(a.Key) }},
	{ParamItems, "a number of items",
		func(a *Ask) []string {
			if !a.HasItems {
				return nil
			}
			return said(strconv.Itoa(a.Items))
		},
		func(a *Ask, values []string) error { a.HasItems = true; return readInt(&a.Items, ParamItems, values) },
		func(a *Ask) error { return CheckItems(a.Items) }},
	{ParamOvercommit, "overcommit",
		func(a *Ask) []string {
			if !a.Overcommit {
				return nil
			}
			return said("true")
		},
		func(a *Ask, values []string) (err error) {
			if a.Overcommit, err = strconv.ParseBool(values[0]); err != nil {
				return InvalidParam(ParamOvercommit, values[0])
			}
			return nil
		},
		func(*Ask) error { return nil }},
	{ParamVariant, "a variant",
		func(a *Ask) []string { return said(a.Variant) },
		func(a *Ask, values []string) error { a.Variant = values[0]; return nil },
		func(a *Ask) error { return CheckVariant(a.Variant) }},
	{ParamCoalesce, "a run that merges with others",
		func(a *Ask) []string { return said(a.Coalesce) },
		func(a *Ask, values []string) error { a.Coalesce = values[0]; return nil },
		func(a *Ask) error { return cmp.Or(CheckCoalesce(a.Coalesce), CheckVariant(a.Variant)) }},
}

// said returns the values of a parameter: text, or none if that is empty.
func said(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

func readInt(p *int, param string, values []string) (err error) {
	if *p, err = strconv.Atoi(values[0]); err != nil {
		return InvalidParam(param, values[0])
	}
	return nil
}

// EncodeAsk adds the parameters of a to v, except those that version 1 knows. It does not write what is
// meant anyway.
func EncodeAsk(a *Ask, v url.Values) {
	for _, p := range parts {
		if values := p.write(a); values != nil {
			v[p.param] = values
		}
	}
}

// DecodeAsk reads into a, which has its Type and Count, what [EncodeAsk] wrote. It refuses what [CheckAsk]
// does of these parts, and parameters that are there and empty.
func DecodeAsk(a *Ask, v url.Values) error {
	for _, p := range parts {
		values := v[p.param]
		if len(values) == 0 {
			continue
		}
		if err := p.read(a, values); err != nil {
			return err
		}
		if err := p.check(a); err != nil {
			return err
		}
	}
	return CheckTogether(a).orNil()
}

// AskParams returns the parameters that [EncodeAsk] writes.
func AskParams() (names []string) {
	for _, p := range parts {
		names = append(names, p.param)
	}
	return names
}

// BeyondVersion1 names a part of a that a version-1 proxy would ignore; empty: there is none.
func BeyondVersion1(a *Ask) (what string) {
	for _, p := range parts {
		if p.write(a) != nil {
			return p.what
		}
	}
	return ""
}

// CheckAsk reports why nobody can ask for a.
func CheckAsk(a *Ask) error {
	if err := CheckType(a.Type); err != nil {
		return err
	}
	if a.Count < 0 {
		return fmt.Errorf("the count is %d, and must not be negative", a.Count)
	}
	if a.Items != 0 && !a.HasItems {
		return errors.New("a number of items is there, and HasItems is not set")
	}
	for _, p := range parts {
		if p.write(a) == nil {
			continue
		}
		if err := p.check(a); err != nil {
			return err
		}
	}
	return CheckTogether(a).orNil()
}

// CheckTogether says which parts of a do not go together; nil: all do. What goes with a request id is the
// server's to say.
func CheckTogether(a *Ask) *RuleError {
	named, also := a.Name != "", len(a.Also) > 0
	coalesce, mode := ParamCoalesce+" "+a.Coalesce, ParamKeyMode+" "+a.KeyMode
	switch {
	case a.Count > 0 && a.HasItems:
		return &RuleError{ParamCount, apart, ParamItems, "items are what units are made of"}
	case named && a.Count > 1:
		return &RuleError{ParamName, apart, ParamCount + " " + strconv.Itoa(a.Count), "it is one lease"}
	case named && a.HasItems:
		return &RuleError{ParamName, apart, ParamItems, "it is one lease"}
	case named && also:
		return &RuleError{ParamName, apart, ParamAlso, "it is one lease"}
	case named && a.Key != "":
		return &RuleError{ParamName, apart, ParamKey, "nobody else has the name meanwhile, which is what a key is for"}
	case named && a.Overcommit:
		return &RuleError{ParamName, apart, ParamOvercommit, "a name that somebody has cannot be had twice"}
	case named && a.Coalesce != "":
		return &RuleError{coalesce, apart, ParamName, "runs merge by their key"}
	case a.KeyMode != "" && a.Key == "":
		return &RuleError{mode, together, ParamKey, "say what is read or written"}
	case also && a.Overcommit:
		return &RuleError{ParamOvercommit, apart, ParamAlso, "who waits for several pools exceeds none of them"}
	case a.Coalesce == "" && a.Variant != "":
		return &RuleError{ParamVariant, together, ParamCoalesce, "say how the runs of a key merge, such as join"}
	case a.Coalesce == "":
		return nil
	case a.Key == "":
		return &RuleError{coalesce, together, ParamKey, "say what is the same in the runs that merge"}
	case a.KeyMode == KeyRead:
		return &RuleError{coalesce, apart, mode, "runs that merge exclude each other"}
	case also:
		return &RuleError{coalesce, apart, ParamAlso, "runs that merge wait for one pool"}
	}
	return nil
}

// How two parts of an Ask go together.
const (
	apart    = "does not go with"
	together = "goes with"
)

// RuleError says of two parts of an [Ask] that they do not go together, or that the first goes with the
// other only, which is not there. Each is the name of its parameter; its value may follow after a space.
type RuleError struct{ Part, Rule, Other, Why string }

func (e *RuleError) Error() string {
	return fmt.Sprintf("%s %s %s: %s", e.Part, e.Rule, e.Other, e.Why)
}

// orNil returns e as an error that is nil if e is.
func (e *RuleError) orNil() error {
	if e == nil {
		return nil
	}
	return e
}

// CheckCoalesce reports why word cannot be how a request merges with others.
func CheckCoalesce(word string) error {
	switch word {
	case CoalesceJoin, CoalesceOnce, CoalesceLatest:
		return nil
	}
	return fmt.Errorf("%q is no way to coalesce: it is join, once or latest", Shorten(word))
}

// InvalidParam refuses a parameter; what is its value, or the reason.
func InvalidParam(name, what string) error {
	return fmt.Errorf("parameter %q is not valid: %s", name, Shorten(what))
}
