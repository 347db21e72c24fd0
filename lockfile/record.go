package lockfile

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// HandleState is the stage of a handle.
type HandleState string

// States of a handle. The zero HandleState means that there is no handle.
const (
	// HandleQueued: an acquire waits for its leases. There is no names file.
	HandleQueued HandleState = "queued"
	// HandleHeld: the leases are the caller's. There is a names file; a script that removes it
	// removes the handle.
	HandleHeld HandleState = "held"
	// HandleReleasing: the release of the leases, or of the waiting request, has begun, and the
	// proxy has not confirmed it. The names file stays until it has.
	HandleReleasing HandleState = "releasing"
)

// Lease is one lease as its proxy granted it.
type Lease struct {
	Name string `json:"name"`
	// Generation tells this grant of the name from every other grant; zero if only the name is
	// known, as in a bare handle.
	Generation uint64 `json:"generation,omitempty"`
	// Type is the type of its pool, if the request asked for several; else it is that of the record.
	Type string `json:"type,omitempty"`
}

// Terms are what the user of an acquire said of the lease beside what it is for. A zero field was not said.
type Terms struct {
	TTL          leaseapi.Duration `json:"ttl,omitempty"`
	ReleaseAfter leaseapi.Duration `json:"release_after,omitempty"` // after the grant
	Owner        string            `json:"owner,omitempty"`
	// OwnerPID is the process for whose life a keeper keeps the lease, and OwnerSpace the PID namespace in
	// which it has that id.
	OwnerPID   int    `json:"owner_pid,omitempty"`
	OwnerSpace string `json:"owner_space,omitempty"`
}

// Record is the content of a handle. The zero Record means that there is no handle. A bare
// handle, which is names and nothing else, has HandleHeld and Leases without generations.
type Record struct {
	State        HandleState `json:"state,omitempty"`
	RequestID    string      `json:"request_id,omitempty"`
	Owner        string      `json:"owner,omitempty"`
	leaseapi.Ask             // as requested
	Terms        Terms       `json:"terms,omitzero"`

	Units   int    `json:"units,omitempty"`   // of a counted pool that the lease holds; zero: the pool is listed
	Resizes int    `json:"resizes,omitempty"` // of the lease so far, as the proxy counts them
	Proxy   string `json:"proxy,omitempty"`   // URL
	Store   string `json:"store,omitempty"`   // id of the proxy's store; see [Grant]
	// Taker is who took the leases, as the proxy said; zero: everybody, or there are none yet. To others a
	// proxy may not show them.
	Taker leaseapi.Caller `json:"taker,omitzero"`
	Seal  string          `json:"seal,omitempty"` // shows that the state directory knows RequestID and Proxy; see package dial
	// Adapter is the id of the state directory whose adapter made the generations of the leases,
	// since their proxy is of version 1; "": the proxy made them.
	Adapter string `json:"adapter,omitempty"`
	// Replaces are leases of the handle that end when the proxy takes the waiting request.
	Replaces []Lease `json:"replaces,omitempty"`
	// ReplacesOf is the request that got Replaces.
	ReplacesOf string `json:"replaces_of,omitempty"`

	TTL    time.Duration `json:"ttl,omitempty"` // encoded as a string, "5m0s"
	Leases []Lease       `json:"leases,omitempty"`

	SharedList string    `json:"shared_list,omitempty"` // path of the [List] the names were added to
	AcquiredAt time.Time `json:"acquired_at,omitzero"`
	// ReleaseAt is when a delayed release is due; zero if none is pending. If the proxy is of
	// version 1, a keeper releases the leases at this time. Other proxies do it by themselves,
	// and the time is only for display.
	ReleaseAt time.Time `json:"release_at,omitzero"`
	KeeperPID int       `json:"keeper_pid,omitempty"`
	// Within is the request of the exec within whose command somebody asked for the lease, began to
	// release it, or put its release off; "": nobody did so within a command.
	Within string `json:"within,omitempty"`
}

// Names returns the names of the leases, in their order.
func (r Record) Names() []string { return Names(r.Leases) }

// Names returns the names of leases, in their order.
func Names(leases []Lease) []string {
	names := make([]string, len(leases))
	for i, lease := range leases {
		names[i] = lease.Name
	}
	return names
}

// Bare tells whether the record is of a handle that is only a file of names.
func (r Record) Bare() bool { return r.State == HandleHeld && r.RequestID == "" }

// Certain tells whether leases may be released twice: each has a generation, of its proxy or of the
// adapter for version-1 proxies.
func Certain(leases []Lease) bool {
	return len(leases) > 0 && !slices.ContainsFunc(leases, func(l Lease) bool { return l.Generation == 0 })
}

// Lasts tells whether the leases are of a version-1 proxy: they last until they are released, and
// nobody but a keeper releases them late.
func (r Record) Lasts() bool { return lasts(r.Leases, r.Adapter) }

func lasts(leases []Lease, adapter string) bool {
	return len(leases) > 0 && (adapter != "" || !Certain(leases))
}

// Unreleased tells whether the record still holds a lease or has a request that waits: nobody has
// begun to give it back.
func (r Record) Unreleased() bool { return r.State == HandleQueued || r.State == HandleHeld }

// WaitsInPlaceOf tells whether the record waits for a lease in the place of those of held.
func (r Record) WaitsInPlaceOf(held Record) bool {
	return r.State == HandleQueued && len(r.Replaces) > 0 && slices.Equal(r.Replaces, held.Leases)
}

// SameGrant tells whether two records are of one grant. A bare handle has no request id: then the
// names decide.
func (r Record) SameGrant(o Record) bool {
	return r.RequestID == o.RequestID && slices.Equal(r.Names(), o.Names())
}

// Holds tells whether l, as a proxy reports it, is a lease of the record. If the record does not know
// the generation that the proxy gave, every lease of that name matches.
func (r Record) Holds(l leaseapi.Lease) bool {
	return slices.ContainsFunc(r.Leases, func(ours Lease) bool {
		return ours.Name == l.Name && (ours.Generation == l.Generation || ours.Generation == 0 || r.Adapter != "")
	})
}

// Describe names for people what the record holds or waits for.
func (r Record) Describe() string {
	if len(r.Leases) == 0 {
		return "request " + r.RequestID
	}
	return strings.Join(r.Names(), ", ")
}

// Grants returns the leases as a list has them.
func (r Record) Grants() []Grant {
	grants := make([]Grant, len(r.Leases))
	for i, l := range r.Leases {
		if r.Adapter != "" {
			l.Generation = 0 // which means nothing elsewhere
		}
		grants[i] = Grant{Lease: l, Store: r.Store, Adapter: r.Adapter, RequestID: r.RequestID, Owner: r.Owner, At: r.AcquiredAt, Taker: r.Taker}
	}
	return grants
}

// Wire returns leases as a proxy knows them.
func Wire(leases []Lease) []leaseapi.Lease {
	out := make([]leaseapi.Lease, len(leases))
	for i, l := range leases {
		out[i] = leaseapi.Lease{Name: l.Name, Generation: l.Generation}
	}
	return out
}

// Wire returns the leases of the record as its proxy knows them, and those that they replace, each with
// the request that got it: name and generation can be guessed.
func (r Record) Wire() []leaseapi.Lease {
	wire := append(Wire(r.Leases), Wire(r.Replaces)...)
	for i := range wire {
		wire[i].RequestID = r.RequestID
		if i >= len(r.Leases) {
			wire[i].RequestID = r.ReplacesOf
		}
	}
	return wire
}

// MarshalJSON implements [json.Marshaler].
func (r Record) MarshalJSON() ([]byte, error) { return json.Marshal(r.document(0)) }

// UnmarshalJSON implements [json.Unmarshaler]. It skips fields that it does not
// know.
func (r *Record) UnmarshalJSON(data []byte) error {
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		return err
	}
	*r = doc.record()
	return nil
}

// NamesInFile returns the content of the names file of r: the names of the leases that are held
// or being released.
func (r Record) NamesInFile() []string {
	if r.State == HandleQueued {
		return nil
	}
	return r.Names()
}

// hasNamesFile reports whether r has a names file. A held record without leases has one, too:
// without the file the handle would count as removed.
func (r Record) hasNamesFile() bool {
	return r.State == HandleHeld || len(r.NamesInFile()) > 0
}

// fields is Record without its methods.
type fields Record

// document is the form of a Record as JSON.
type document struct {
	Format int `json:"format,omitempty"`
	fields
	TTL leaseapi.Duration `json:"ttl,omitempty"` // hides the TTL of fields
}

func (r Record) document(format int) document {
	return document{Format: format, fields: fields(r), TTL: leaseapi.Duration(r.TTL)}
}

func (d document) record() Record {
	r := Record(d.fields)
	r.TTL = time.Duration(d.TTL)
	return r
}

// encode returns r as it is written to disk: empty, not nil, for the zero Record.
func (r Record) encode() ([]byte, error) {
	if r.State == "" {
		return []byte{}, nil
	}
	text, err := json.MarshalIndent(r.document(format), "", "  ")
	return append(text, '\n'), err
}

// decode is the inverse of encode. It checks every field.
func decode(data []byte) (Record, error) {
	var doc document
	if err := unmarshal(data, &doc); err != nil {
		return Record{}, err
	}
	r := doc.record()
	if r.State == "" {
		return Record{}, errors.New("it has no state")
	}
	return r, r.check()
}
