package leaseapi

import "time"

// PathWhoami is the path of a GET that says how the server knows its caller. Servers that do not
// have it answer 404.
const PathWhoami = "/whoami"

// Caller is who a server takes a caller for. The zero Caller is everybody, on a server that asks for no
// tokens.
type Caller struct {
	Name   string `json:"name,omitempty"`
	Issuer string `json:"issuer,omitempty"` // that vouches for Name; empty: a token of the server's file
}

func (c Caller) String() string {
	switch {
	case c == Caller{}:
		return "everybody"
	case c.Issuer == "":
		return c.Name
	}
	return c.Name + " of " + c.Issuer
}

// WhoamiReply is the answer to GET [PathWhoami].
type WhoamiReply struct {
	Open bool `json:"open,omitempty"` // the server asks for no tokens: everybody may do everything

	Name   string `json:"name,omitempty"`
	Issuer string `json:"issuer,omitempty"` // that vouches for Name; empty: a token of the server's file
	Role   string `json:"role,omitempty"`   // job, read or admin
	// Pools are globs of the types that the caller may acquire and see, in which * is any text;
	// empty: all.
	Pools       []string  `json:"pools,omitempty"`
	MaxPriority int       `json:"max_priority,omitempty"` // the greatest priority that it may ask for
	Overcommit  bool      `json:"overcommit,omitempty"`   // it may ask for leases beyond the limit
	MaxLeases   int       `json:"max_leases,omitempty"`   // how many it may hold or wait for; zero: no bound
	MaxWaiters  int       `json:"max_waiters,omitempty"`  // how many of its requests may wait; zero: no bound
	Until       time.Time `json:"until,omitzero"`         // when its token ends; zero: it does not
}
