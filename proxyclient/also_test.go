package proxyclient

import (
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// A grant of several types is taken only if it is all that was asked for, in the order of the types.
func TestGrantOfSeveralTypes(t *testing.T) {
	request := Request{Ask: leaseapi.Ask{Type: "a", Count: 2, Also: []leaseapi.Also{{Type: "b"}, {Type: "u", Count: 3}}}, RequestID: "R"}
	lease := func(typ, name string, units int) leaseapi.Lease {
		return leaseapi.Lease{Name: name, Generation: 1, Type: typ, Units: units}
	}
	a0, a1, b, u := lease("a", "a-0", 0), lease("a", "a-1", 0), lease("b", "b-0", 0), lease("u", "u-1", 3)
	for _, tt := range []struct {
		what   string
		leases []leaseapi.Lease
		err    string
	}{
		{"all", []leaseapi.Lease{a0, a1, b, u}, ""},
		{"two of too few", []leaseapi.Lease{a0, b, u}, `1 leases of type "a" instead of 2`},
		{"a type is missing", []leaseapi.Lease{a0, a1, u}, `0 leases of type "b" instead of 1`},
		{"the last is missing", []leaseapi.Lease{a0, a1, b}, `0 leases of type "u" instead of 3`},
		{"names of a pool that has units since", []leaseapi.Lease{a0, a1, b, lease("u", "u-1", 1), lease("u", "u-2", 1), lease("u", "u-3", 1)}, ""},
		{"too few units", []leaseapi.Lease{a0, a1, b, lease("u", "u-1", 2)}, `leases of type "u"`},
		{"another order", []leaseapi.Lease{a0, a1, u, b}, `0 leases of type "b"`},
		{"one more", []leaseapi.Lease{a0, a1, b, u, lease("x", "x-0", 0)}, `leases of type "x", which were not asked for`},
		{"a name twice", []leaseapi.Lease{a0, a0, b, u}, `granted "a-0" twice`},
	} {
		reply := leaseapi.AcquireReply{RequestID: "R", TTL: 1e9, Leases: tt.leases}
		for _, l := range tt.leases {
			reply.Names = append(reply.Names, l.Name)
		}
		g, err := newGrant(&request, 2, reply)
		switch {
		case tt.err == "" && err != nil, tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%s: error %v", tt.what, err)
		case err == nil && (len(g.Leases) != len(tt.leases) || g.Leases[3].Type != "u" || g.Leases[3].Units != 0 || g.Units != 0):
			t.Errorf("%s: %+v", tt.what, g)
		}
	}
	first := Request{Ask: leaseapi.Ask{Type: "u", Also: []leaseapi.Also{{Type: "b"}}}, RequestID: "R"}
	g, err := newGrant(&first, 1, leaseapi.AcquireReply{RequestID: "R", TTL: 1e9, Names: []string{"u-1", "b-0"}, Leases: []leaseapi.Lease{u, b}})
	if err != nil || g.Units != 3 {
		t.Errorf("units of the first type: %+v, %v", g, err)
	}
}

// A proxy that grants the first of several types alone gets its lease back.
func TestFirstOfSeveralTypes(t *testing.T) {
	request := Request{Ask: leaseapi.Ask{Type: "t", Also: []leaseapi.Also{{Type: "b"}, {Type: "c", Count: 2}}}, RequestID: "R", Wait: time.Minute}
	bubble(t, "", func(t *testing.T) {
		proxy := newOurs(t, "a")
		h := &recording{Handler: proxy}
		c, _ := serve(t, h)
		_, err := c.Acquire(t.Context(), request)
		if held, queued := proxy.state(); held+queued > 0 {
			t.Errorf("%d are held, and %d wait", held, queued)
		}
		if err == nil || !strings.Contains(strings.Join(h.seen, "\n"), `"also":[{"type":"b"},{"type":"c","count":2}]`) {
			t.Errorf("error %v; seen %q", err, h.seen)
		}
	})
	c, _ := serve(t, newOurs(t, "a"))
	for _, r := range []Request{
		{Ask: leaseapi.Ask{Also: []leaseapi.Also{{Type: "t"}}}}, {Ask: leaseapi.Ask{Also: []leaseapi.Also{{Type: ""}}}}, {Ask: leaseapi.Ask{Also: []leaseapi.Also{{Type: "b"}}, Overcommit: true}},
		{Ask: leaseapi.Ask{Also: []leaseapi.Also{{Type: "b"}}, Key: "k", Coalesce: leaseapi.CoalesceJoin, Variant: "v"}},
	} {
		r.Type = "t"
		if _, err := c.Acquire(t.Context(), r); err == nil {
			t.Errorf("%+v is taken", r)
		}
	}
}
