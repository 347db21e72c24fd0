package leaseapi

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Ask is what a request asks for: a command line says it, a handle keeps it, and an acquire carries it
// to a server. This file says what its parts are, and which go together.
// The zero value of a part is that it is not said.
//
// It has no methods, since what embeds it would have them, too.
type Ask struct {
	Type string `json:"type,omitempty"`
	// Count is how many leases, granted all or none; of a counted pool, how many units of one lease.
	Count int `json:"count,omitempty"`
	// Items is how many things the lease is for, instead of a Count: the cost of a counted pool turns items
	// into units. Nil: not said.
	Items *int `json:"items,omitempty"`
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

// AcquireRequest is the JSON body of an acquire; see [ParamAsk] for a proxy that is not known yet. Without either, an
// acquire is of version 1, with [ParamType] and [ParamCount] as its query. A body beside a query has the
// Content-Type application/json.
type AcquireRequest struct {
	Ask
	// RequestID makes the request repeatable. Also, Coalesce and Replaces go with it only.
	RequestID string   `json:"request_id,omitempty"`
	Owner     string   `json:"owner,omitempty"`
	TTL       Duration `json:"ttl,omitempty"` // zero: the pool's default
	// Wait is how long to wait from the arrival of the request; 0 tries once. Nil: the server's own bound counts.
	Wait *Duration `json:"wait,omitempty"`
	// Replaces are leases of the caller, at most [MaxReplaces], that end when the request is taken into the
	// queue. A request that is refused ends none.
	Replaces []Lease `json:"replaces,omitempty"`
}

// CheckAcquire reports why a server refuses r, whatever its pools are.
func CheckAcquire(r *AcquireRequest) error {
	if err := cmp.Or(CheckAsk(&r.Ask), CheckOwner(r.Owner)); err != nil {
		return err
	}
	if r.RequestID != "" {
		if err := CheckRequestID(r.RequestID); err != nil {
			return err
		}
	}
	if err := CheckTTL(time.Duration(r.TTL)); err != nil {
		return InvalidParam("ttl", err.Error())
	}
	switch {
	case r.Wait != nil && *r.Wait < 0:
		return InvalidParam("wait", fmt.Sprintf("%s is negative", *r.Wait))
	case len(r.Replaces) > MaxReplaces:
		return InvalidParam("replaces", fmt.Sprintf("more than %d leases to replace", MaxReplaces))
	case r.RequestID != "":
	case len(r.Also) > 0:
		return errors.New("also goes with a request_id: a client of version 1 knows one type")
	case r.Coalesce != "":
		return errors.New("coalesce goes with a request_id: a client of version 1 knows no end but its own")
	case len(r.Replaces) > 0:
		return errors.New("replaces goes with a request_id: without one, a repeated call would be another request")
	}
	for _, l := range r.Replaces {
		if CheckName(l.Name) != nil || l.Generation == 0 {
			return InvalidParam("replaces", fmt.Sprintf("%q of generation %d is no lease to replace", Shorten(l.Name), l.Generation))
		}
	}
	return nil
}

// ParamAsk is the query parameter with which a client sends an [AcquireRequest] to a proxy of which it does not
// know the version yet. A version-1 proxy would leave a body unread, and then not notice that its client goes.
// The parameters of version 1 may be there, too: our server ignores them beside this one, or beside a body.
const ParamAsk = "ask"

// Parameters of an acquire, as errors name them, which are the fields of [AcquireRequest]. Type and count are
// query parameters of version 1, too.
const (
	ParamType = "type"
	// ParamCount is how many leases; of a counted pool, how many units of the one lease that a request of ours
	// gets. One if it is absent; of a counted pool then what it has for jobs that do not say.
	ParamCount = "count"

	// Which of the parameters below go together says [CheckTogether].
	ParamKey        = "key"        // see [CheckKey]
	ParamKeyMode    = "key_mode"   // with a key: [KeyRead] or [KeyWrite], which is meant if it is absent
	ParamItems      = "items"      // instead of a count: the pool's cost turns items into units
	ParamOvercommit = "overcommit" // grant the lease although the pool is full or paused
	ParamCoalesce   = "coalesce"   // with a key: [CoalesceJoin] and so on
	ParamVariant    = "variant"    // with coalesce: what the run does, see [CheckVariant]
	ParamPriority   = "priority"   // how many steps the request goes ahead in the queue, see [CheckPriority]
	ParamName       = "name"       // this name of a listed pool and no other
	ParamAlso       = "also"       // up to [MaxAlso] other types, all granted together or none
)

// part is a part of an Ask that version 1 does not know.
type part struct {
	param string
	what  string // the part, for people
	said  func(a *Ask) bool
	check func(a *Ask) error // what is wrong with the part alone; it is called if the part is said
}

// parts are all but Type and Count. Where several are there, an error names the first.
var parts = []part{
	{ParamAlso, "leases of several types at once",
		func(a *Ask) bool { return len(a.Also) > 0 },
		func(a *Ask) (err error) {
			for _, other := range a.Also {
				err = cmp.Or(err, CheckType(other.Type))
			}
			if err = cmp.Or(err, CheckAlso(a.Type, a.Also)); err != nil {
				return InvalidParam(ParamAlso, err.Error())
			}
			return nil
		}},
	{ParamName, "a lease of a certain name", func(a *Ask) bool { return a.Name != "" }, func(a *Ask) error { return CheckName(a.Name) }},
	{ParamPriority, "a priority", func(a *Ask) bool { return a.Priority != 0 }, func(a *Ask) error { return CheckPriority(a.Priority) }},
	{ParamKeyMode, "a key that is read",
		func(a *Ask) bool { return a.KeyMode != "" && a.KeyMode != KeyWrite },
		func(a *Ask) error {
			if a.KeyMode != KeyRead {
				return InvalidParam(ParamKeyMode, a.KeyMode)
			}
			return nil
		}},
	{ParamKey, "a key", func(a *Ask) bool { return a.Key != "" }, func(a *Ask) error { return CheckKey(a.Key) }},
	{ParamItems, "a number of items", func(a *Ask) bool { return a.Items != nil }, func(a *Ask) error { return CheckItems(*a.Items) }},
	{ParamOvercommit, "overcommit", func(a *Ask) bool { return a.Overcommit }, func(*Ask) error { return nil }},
	{ParamVariant, "a variant", func(a *Ask) bool { return a.Variant != "" }, func(a *Ask) error { return CheckVariant(a.Variant) }},
	{ParamCoalesce, "a run that merges with others",
		func(a *Ask) bool { return a.Coalesce != "" },
		func(a *Ask) error { return cmp.Or(CheckCoalesce(a.Coalesce), CheckVariant(a.Variant)) }},
}

// BeyondVersion1 names a part of a that a version-1 proxy would ignore; empty: there is none.
func BeyondVersion1(a *Ask) (what string) {
	for _, p := range parts {
		if p.said(a) {
			return p.what
		}
	}
	return ""
}

// Said returns the parameters of a that version 1 does not know and that are said.
func Said(a *Ask) (params []string) {
	for _, p := range parts {
		if p.said(a) {
			params = append(params, p.param)
		}
	}
	return params
}

// CheckAsk reports why nobody can ask for a.
func CheckAsk(a *Ask) error {
	if err := CheckType(a.Type); err != nil {
		return err
	}
	if a.Count < 0 {
		return fmt.Errorf("the count is %d, and must not be negative", a.Count)
	}
	for _, p := range parts {
		if !p.said(a) {
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
	case a.Count > 0 && a.Items != nil:
		return &RuleError{ParamCount, apart, ParamItems, "items are what units are made of"}
	case named && a.Count > 1:
		return &RuleError{ParamName, apart, ParamCount + " " + strconv.Itoa(a.Count), "it is one lease"}
	case named && a.Items != nil:
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
