package leaseapi

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
)

// Ask is what a request asks for: a command line says it, a handle keeps it, and an acquire carries it
// to a server. Here alone is what its parts are, which go together, how they are written and read, and
// which wire knows them. The zero value of a part is that it is not said.
type Ask struct {
	Type string `json:"type,omitempty"`
	// Count is how many leases, granted all or none; of a counted pool, how many units of one lease.
	Count int `json:"count,omitempty"`
	// Items, if HasItems is set, is what the lease is for, instead of a Count: the cost of a counted pool
	// turns items into units.
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
	wire  int    // the least that knows it
	what  string // the part, for people
	has   func(a *Ask) bool
	write func(a *Ask) []string
	read  func(a *Ask, values []string) error
	check func(a *Ask) error // what is wrong with the part alone
}

// parts are all but Type and Count. Where several need the same wire, an error names the first.
var parts = []part{
	{ParamAlso, WireSwaps, "leases of several types at once", func(a *Ask) bool { return len(a.Also) > 0 },
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
	{ParamName, WireSwaps, "a lease of a certain name", func(a *Ask) bool { return a.Name != "" },
		func(a *Ask) []string { return []string{a.Name} },
		func(a *Ask, values []string) error { a.Name = values[0]; return nil },
		func(a *Ask) error { return CheckName(a.Name) }},
	{ParamPriority, WireSwaps, "a priority", func(a *Ask) bool { return a.Priority != 0 },
		func(a *Ask) []string { return []string{strconv.Itoa(a.Priority)} },
		func(a *Ask, values []string) error { return readInt(&a.Priority, ParamPriority, values) },
		func(a *Ask) error { return CheckPriority(a.Priority) }},
	{ParamKeyMode, WireSwaps, "a key that is read", func(a *Ask) bool { return a.KeyMode == KeyRead },
		func(a *Ask) []string { return []string{a.KeyMode} },
		func(a *Ask, values []string) error { a.KeyMode = values[0]; return nil },
		func(a *Ask) error { return checkKeyMode(a.KeyMode) }},
	{ParamKey, WireUnits, "a key", func(a *Ask) bool { return a.Key != "" },
		func(a *Ask) []string { return []string{a.Key} },
		func(a *Ask, values []string) error { a.Key = values[0]; return nil },
		func(a *Ask) error { return CheckKey(a.Key) }},
	{ParamItems, WireUnits, "a number of items", func(a *Ask) bool { return a.HasItems },
		func(a *Ask) []string { return []string{strconv.Itoa(a.Items)} },
		func(a *Ask, values []string) error { a.HasItems = true; return readInt(&a.Items, ParamItems, values) },
		func(a *Ask) error { return CheckItems(a.Items) }},
	{ParamOvercommit, WireUnits, "overcommit", func(a *Ask) bool { return a.Overcommit },
		func(*Ask) []string { return []string{"true"} },
		func(a *Ask, values []string) (err error) {
			if a.Overcommit, err = strconv.ParseBool(values[0]); err != nil {
				return InvalidParam(ParamOvercommit, values[0])
			}
			return nil
		},
		func(*Ask) error { return nil }},
	{ParamVariant, WireUnits, "a variant", func(a *Ask) bool { return a.Variant != "" },
		func(a *Ask) []string { return []string{a.Variant} },
		func(a *Ask, values []string) error { a.Variant = values[0]; return nil },
		func(a *Ask) error { return CheckVariant(a.Variant) }},
	{ParamCoalesce, WireUnits, "a run that merges with others", func(a *Ask) bool { return a.Coalesce != "" },
		func(a *Ask) []string { return []string{a.Coalesce} },
		func(a *Ask, values []string) error { a.Coalesce = values[0]; return nil },
		func(a *Ask) error { return cmp.Or(CheckCoalesce(a.Coalesce), CheckVariant(a.Variant)) }},
}

func readInt(p *int, param string, values []string) (err error) {
	if *p, err = strconv.Atoi(values[0]); err != nil {
		return InvalidParam(param, values[0])
	}
	return nil
}

// Encode adds the parameters of a to v, but those that version 1 knows.
func (a *Ask) Encode(v url.Values) {
	for _, p := range parts {
		if p.has(a) {
			v[p.param] = p.write(a)
		}
	}
}

// Decode reads into a, which has its Type and Count, what [Ask.Encode] wrote. It refuses what [Ask.Check]
// does, and parameters that are there and empty.
func (a *Ask) Decode(v url.Values) error {
	for _, p := range parts {
		if !v.Has(p.param) {
			continue
		}
		if err := p.read(a, v[p.param]); err != nil {
			return err
		}
		if err := p.check(a); err != nil {
			return err
		}
	}
	return a.CheckTogether()
}

// EncodesAsk reports whether v has parameters of an Ask that version 1 does not know.
func EncodesAsk(v url.Values) bool {
	for _, p := range parts {
		if v.Has(p.param) {
			return true
		}
	}
	return false
}

// Needs returns the least wire on which all of a is known, and names a part that needs it; zero: any
// wire.
func (a *Ask) Needs() (wire int, what string) {
	for _, p := range parts {
		if p.wire > wire && p.has(a) {
			wire, what = p.wire, p.what
		}
	}
	return wire, what
}

// Check reports why nobody can ask for a.
func (a *Ask) Check() error {
	if a.Count < 0 {
		return fmt.Errorf("the count is %d, and must not be negative", a.Count)
	}
	err := CheckType(a.Type)
	for _, p := range parts {
		if err == nil && p.has(a) {
			err = p.check(a)
		}
	}
	return cmp.Or(err, a.CheckTogether())
}

// CheckTogether reports which parts of a do not go together, as a [RuleError].
func (a *Ask) CheckTogether() error {
	many, named, also := a.Count > 1, a.Name != "", len(a.Also) > 0
	coalesce, mode := ParamCoalesce+" "+a.Coalesce, ParamKeyMode+" "+a.KeyMode
	switch {
	case a.Count > 0 && a.HasItems:
		return &RuleError{ParamCount, apart, ParamItems, "items are what units are made of"}
	case named && many:
		return &RuleError{ParamName, apart, ParamCount, "it is one lease"}
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
// other only, which is not there. Each is the name of its parameter; a value, if it is one of few, follows
// after a space.
type RuleError struct{ Part, Rule, Other, Why string }

func (e *RuleError) Error() string {
	return fmt.Sprintf("%s %s %s: %s", e.Part, e.Rule, e.Other, e.Why)
}

// CheckCoalesce reports why word cannot be how a request merges with others.
func CheckCoalesce(word string) error {
	switch word {
	case CoalesceJoin, CoalesceOnce, CoalesceLatest:
		return nil
	}
	return fmt.Errorf("%q is no way to coalesce: it is join, once or latest", Shorten(word))
}

func checkKeyMode(word string) error {
	if word != KeyRead && word != KeyWrite {
		return InvalidParam(ParamKeyMode, word)
	}
	return nil
}

// InvalidParam refuses a parameter; what is its value, or the reason.
func InvalidParam(name, what string) error {
	return fmt.Errorf("parameter %q is not valid: %s", name, Shorten(what))
}
