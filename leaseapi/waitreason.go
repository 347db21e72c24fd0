package leaseapi

import (
	"cmp"
	"fmt"
)

// WaitReason is why a request waits, or a lease cannot grow. The server decides it, and [WaitReason.String]
// has the words for people. The zero value is no reason.
type WaitReason struct {
	Kind  string `json:"kind"`            // [WaitFull] and so on
	Name  string `json:"name,omitempty"`  // of the lease that the kind is about
	Units int    `json:"units,omitempty"` // that the request wants
	By    string `json:"by,omitempty"`    // the owner that the kind is about
	Token string `json:"token,omitempty"` // name of the token of By
	Text  string `json:"text,omitempty"`  // what an operator said
	// Reserved is how many of Capacity names are reserved.
	Reserved int `json:"reserved,omitempty"`
	Capacity int `json:"capacity,omitempty"`
	// Type is another pool, for which the request waits too: the kind says why it waits there. With
	// [WaitCircle] it is the pool in which By waits.
	Type string `json:"type,omitempty"`
	// Around are leases that the exec around this process holds. Only a client knows of them, and adds them
	// for its user.
	Around string `json:"-"`
}

// Kinds of a [WaitReason]. Newer servers may send others, which a client prints as they are.
const (
	WaitFull     = "full"       // all names are in use
	WaitPaced    = "paced"      // the pace holds the next grant back
	WaitUnits    = "units"      // the request wants Units, and fewer are free; or Reserved names leave fewer for good
	WaitBehind   = "behind"     // free names or units go to the waiters before it
	WaitTurn     = "turn"       // only of a lease that would grow: what is free is for a request that waits
	WaitKey      = "key"        // By holds the key
	WaitWriter   = "writer"     // the holders read the key, too, but a request that writes it waits ahead
	WaitName     = "name"       // By has the Name that the request wants
	WaitReserved = "reserved"   // By has taken the Name that the request wants out of the pool, and Text is why
	WaitLocked   = "lock-delay" // the lease of Name was not released: the pool's lock delay keeps the name, its units and its key
	WaitPaused   = "paused"     // an operator has paused the pool, and Text is why
	WaitJoined   = "joined"     // it waits for the end of another request's run
	// WaitCircle: By waits for leases of the request's own owner in the pool of Type, and the request for
	// leases of By. Neither goes unless one of them gives up.
	WaitCircle = "circle"
	// WaitElsewhere: the request waits for the pool of Type, too, and why is not said. Without a Type it is
	// a pool that the caller may not see.
	WaitElsewhere = "elsewhere"
)

// String returns r in words for people; empty if there is no reason.
func (r WaitReason) String() string {
	before, by, after := r.Words()
	if by != "" {
		before += " "
	}
	return before + by + after
}

// Words returns the parts of [WaitReason.String]: by is the owner that r is about, if any, after a space.
func (r WaitReason) Words() (before, by, after string) {
	before, by, after = r.here()
	switch {
	case r.Kind == WaitCircle:
	case r.Kind == WaitElsewhere:
		before = "waits for " + r.otherPool() + " too"
	case r.Type != "":
		before = "waits for " + r.otherPool() + " too: " + before
	}
	if r.Around != "" {
		after += ", " + r.Around + " held by the exec around this one"
	}
	return before, by, after
}

// here is Words for the pool in which the request waits.
func (r WaitReason) here() (before, by, after string) {
	if by = r.By; by == "" && r.Token != "" {
		by = "token " + r.Token
	}
	switch r.Kind {
	case WaitUnits:
		before = fmt.Sprint("wants ", r.Units)
		if r.Reserved > 0 {
			before += fmt.Sprintf(", %d of %d reserved", r.Reserved, r.Capacity)
		}
		return before, "", ""
	case WaitTurn:
		return "what is free is for a request that waits", "", ""
	case WaitKey:
		if by == "" {
			return "key", "", ""
		}
		return "key held by", by, ""
	case WaitWriter:
		return "behind a writer", "", ""
	case WaitName:
		if by == "" {
			return "wants " + r.Name, "", ""
		}
		return "wants " + r.Name + ", held by", by, ""
	case WaitReserved:
		return "wants " + r.Name + ", reserved by", by, ": " + r.Text
	case WaitLocked:
		return "lock delay of " + r.Name, "", ""
	case WaitPaused:
		return "paused: " + r.Text, "", ""
	case WaitCircle:
		return "waits for", by, ", which waits for you in " + r.otherPool()
	}
	return r.Kind, "", ""
}

func (r WaitReason) otherPool() string { return cmp.Or(r.Type, "another pool") }
