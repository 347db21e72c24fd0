package lockfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// State says where a handle stands.
type State string

// States of a handle. The zero State is that of no handle.
const (
	// StateQueued: an acquire waits for its leases. There is no names file, unless
	// names of an earlier request are owed.
	StateQueued State = "queued"
	// StateHeld: the leases are the caller's. There is a names file; if a
	// script removes it, it has removed the handle.
	StateHeld State = "held"
	// StateReleasing: a release is owed that the proxy has not confirmed. The
	// names file stays until the names in it are given back.
	StateReleasing State = "releasing"
)

// Lease is one lease as its proxy granted it.
type Lease struct {
	Name string `json:"name"`
	// Generation tells this grant of the name from every other; zero if the
	// proxy gave none (version 1), or if only the name is known.
	Generation uint64 `json:"generation,omitempty"`
}

// Owed is a release that the proxy has not confirmed: the leases, or the place
// in the queue, may still be held there.
type Owed struct {
	RequestID string  `json:"request_id,omitempty"`
	Owner     string  `json:"owner,omitempty"`
	Proxy     string  `json:"proxy,omitempty"`
	Store     string  `json:"store,omitempty"` // of the proxy; see [Grant]
	Leases    []Lease `json:"leases,omitempty"`

	SharedList string `json:"shared_list,omitempty"` // as in Record
	// NotAfter is when the leases were granted at the latest; zero if that is not
	// known. A name that was granted again since is not owed.
	NotAfter time.Time `json:"not_after,omitzero"`

	// Unsent says that no release of it can have reached the proxy so far.
	Unsent bool `json:"unsent,omitempty"`
	// Unconfirmed says that the proxy does not know the leases any more, though no
	// release of them succeeded: they may be held, and must not be sent again,
	// since the names may be another's by now.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
}

// Names returns the names of the leases, in their order.
func (o Owed) Names() []string { return Record{Leases: o.Leases}.Names() }

// Record is what is known of a handle. The zero Record is no handle. A bare
// handle, which is names and nothing else, has StateHeld and Leases without
// generations.
type Record struct {
	State     State  `json:"state,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	Owner     string `json:"owner,omitempty"`
	Type      string `json:"type,omitempty"`
	Count     int    `json:"count,omitempty"` // as asked for; zero: it was not said
	Items     int    `json:"items,omitempty"` // likewise, if HasItems is set
	HasItems  bool   `json:"has_items,omitempty"`
	Key       string `json:"key,omitempty"`
	Units     int    `json:"units,omitempty"`   // that the lease holds of a counted pool; zero: of a listed one
	Resizes   int    `json:"resizes,omitempty"` // of it, as the proxy counts them
	Proxy     string `json:"proxy,omitempty"`   // URL
	Store     string `json:"store,omitempty"`   // of the proxy; see [Grant]

	TTL    time.Duration `json:"ttl,omitempty"` // travels as its string, "5m0s"
	Leases []Lease       `json:"leases,omitempty"`

	SharedList string    `json:"shared_list,omitempty"` // path of the [List] the names were added to
	AcquiredAt time.Time `json:"acquired_at,omitzero"`
	// ReleaseAt is when a delayed release is due; zero if none is pending. The
	// keeper of leases from a version-1 proxy releases them at this time. Other
	// proxies keep the time themselves, and then it is only shown.
	ReleaseAt time.Time `json:"release_at,omitzero"`
	KeeperPID int       `json:"keeper_pid,omitempty"`

	// Owed are the releases of earlier requests that are not confirmed yet, oldest
	// first.
	Owed []Owed `json:"previous,omitempty"`
}

// Names returns the names of the leases, in their order.
func (r Record) Names() []string {
	names := make([]string, len(r.Leases))
	for i, lease := range r.Leases {
		names[i] = lease.Name
	}
	return names
}

// MarshalJSON implements [json.Marshaler].
func (r Record) MarshalJSON() ([]byte, error) {
	var o object
	r.appendTo(&o)
	return o.end()
}

func (r Record) appendTo(to *object) {
	to.string("state", string(r.State))
	to.string("request_id", r.RequestID)
	to.string("owner", r.Owner)
	to.string("type", r.Type)
	to.int("count", r.Count)
	to.int("items", r.Items)
	to.bool("has_items", r.HasItems)
	to.string("key", r.Key)
	to.int("units", r.Units)
	to.int("resizes", r.Resizes)
	to.string("proxy", r.Proxy)
	to.string("store", r.Store)
	list(to, "leases", r.Leases, Lease.appendTo)
	to.string("shared_list", r.SharedList)
	to.time("acquired_at", r.AcquiredAt)
	to.time("release_at", r.ReleaseAt)
	to.int("keeper_pid", r.KeeperPID)
	list(to, "previous", r.Owed, Owed.appendTo)
	if r.TTL != 0 {
		to.string("ttl", r.TTL.String())
	}
}

func (l Lease) appendTo(to *object) {
	to.string("name", l.Name)
	to.uint64("generation", l.Generation)
}

func (o Owed) appendTo(to *object) {
	to.string("request_id", o.RequestID)
	to.string("owner", o.Owner)
	to.string("proxy", o.Proxy)
	to.string("store", o.Store)
	list(to, "leases", o.Leases, Lease.appendTo)
	to.string("shared_list", o.SharedList)
	to.time("not_after", o.NotAfter)
	to.bool("unsent", o.Unsent)
	to.bool("unconfirmed", o.Unconfirmed)
}

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

// NamesInFile returns what stands in the names file of r: the names that it holds,
// or, until their release is confirmed, those that it owes.
func (r Record) NamesInFile() []string {
	if r.State == StateHeld {
		return r.Names()
	}
	var names []string
	if r.State != StateQueued {
		names = r.Names()
	}
	for _, owed := range r.Owed {
		names = append(names, owed.Names()...)
	}
	return names
}

// hasNamesFile reports whether r has a names file. A held record has one even
// if it is for no leases, since without the file it would count as removed.
func (r Record) hasNamesFile() bool {
	return r.State == StateHeld || len(r.NamesInFile()) > 0
}

// format is the oldest format whose programs understand r and its names file.
func (r Record) format() int {
	if r.State != StateHeld && slices.ContainsFunc(r.Owed, func(o Owed) bool { return len(o.Leases) > 0 }) {
		return format
	}
	return plainFormat
}

// fields is Record without its methods.
type fields Record

// document is what the JSON of a Record is read into.
type document struct {
	Format int `json:"format"`
	fields
	TTL leaseapi.Duration `json:"ttl"` // hides that of fields
}

func (d document) record() Record {
	r := Record(d.fields)
	r.TTL = time.Duration(d.TTL)
	return r
}

// encode returns r as it stands on disk: nothing for the zero Record.
func (r Record) encode() ([]byte, error) {
	if r.State == "" {
		return []byte{}, nil
	}
	var o object
	o.int("format", r.format())
	r.appendTo(&o)
	data, err := o.end()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = json.Indent(&text, data, "", "  ")
	text.WriteByte('\n')
	return text.Bytes(), err
}

// decode is the inverse of encode. It checks the names like those of a names
// file, since they are sent to a proxy and shown to scripts too.
func decode(data []byte) (Record, error) {
	var doc document
	if err := unmarshal(data, &doc, &doc.Format); err != nil {
		return Record{}, err
	}
	r := doc.record()
	if r.State == "" {
		return Record{}, errors.New("it has no state")
	}
	return r, r.check()
}

func (r Record) check() error {
	err := checkNames(r.Names())
	for _, owed := range r.Owed {
		err = errors.Join(err, checkNames(owed.Names()))
	}
	return err
}
