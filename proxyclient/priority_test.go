package proxyclient

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// What a version-1 proxy would ignore, such as a priority, is not sent to one. The client asks once
// what the proxy is.
func TestVersion1WouldIgnore(t *testing.T) {
	for _, tt := range []struct {
		request    Request
		what, sent string
	}{
		{Request{Ask: leaseapi.Ask{Key: "k"}}, "a key", `"key":"k"`},
		{Request{Ask: leaseapi.Ask{Items: new(int)}}, "a number of items", `"items":0`},
		{Request{Ask: leaseapi.Ask{Overcommit: true}}, "overcommit", `"overcommit":true`},
		{Request{Ask: leaseapi.Ask{Priority: -7}}, "a priority", `"priority":-7`},
		{Request{Ask: leaseapi.Ask{Key: "k", KeyMode: leaseapi.KeyRead}}, "a key that is read", `"key_mode":"read"`},
		{Request{Ask: leaseapi.Ask{Name: "a"}}, "a lease of a certain name", `"name":"a"`},
		{Request{Ask: leaseapi.Ask{Also: []leaseapi.Also{{Type: "b"}}}}, "leases of several types at once", `"also":[{"type":"b"}]`},
		{Request{Replaces: []leaseapi.Lease{{Name: "a", Generation: 1}}}, "a lease in the place of another", `"replaces":[{"name":"a","generation":1}]`},
	} {
		tt.request.Type, tt.request.Wait = "t", time.Minute
		bubble(t, tt.what+" version 1", func(t *testing.T) {
			v := newVersion1(t, "a")
			c, _ := serve(t, v)
			_, err := c.Acquire(t.Context(), tt.request)
			if e, ok := errors.AsType[*Version1Error](err); !ok || e.Needs != tt.what || !errors.Is(err, ErrVersion1) || v.acquires > 0 {
				t.Errorf("error %v, %d acquires", err, v.acquires)
			}
		})
		bubble(t, tt.what+" nobody there", func(t *testing.T) {
			c, m := serve(t, newOurs(t))
			m.Close()
			_, err := c.Acquire(t.Context(), tt.request)
			want(t, err, ErrUnreachable)
		})
		if len(tt.request.Also) > 0 {
			continue // the small server grants the first type only
		}
		bubble(t, tt.what+" ours", func(t *testing.T) {
			s := newOurs(t, "a", "b")
			h := &counting{Handler: s}
			c, _ := serve(t, h, fault{status: 503}, fault{}, lostAnswer)
			for range 2 {
				g, err := c.Acquire(t.Context(), tt.request)
				want(t, err)
				if tt.request.Name == "" && len(g.Leases) != 1 {
					t.Errorf("got %+v", g)
				}
				if _, err := c.Release(t.Context(), leaseapi.ReleaseRequest{RequestIDs: []string{g.RequestID}}); err != nil {
					t.Error(err)
				}
				s.free = []string{"a", "b"}
			}
			for _, q := range s.acquires {
				if sent, err := json.Marshal(q); err != nil || !strings.Contains(string(sent), tt.sent) || q.Count != 0 {
					t.Errorf("sent %s", sent)
				}
			}
			if h.asked != 1 || len(s.acquires) != 3 {
				t.Errorf("asked %d times, acquired %d times", h.asked, len(s.acquires))
			}
		})
	}
}

// A grant by a version-1 proxy that ignored a part of the request is given back: the proxy has taken
// the place of leasectl's own.
func TestVersion1TakesThePlace(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		v := newVersion1(t, "a")
		c, _ := serve(t, v)
		c.learn(Ours)
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Key: "k"}, Wait: time.Minute})
		want(t, err, ErrVersion1)
		if held, _ := v.state(); len(held) != 0 || len(v.releases) != 1 {
			t.Errorf("%v held, %d releases", held, len(v.releases))
		}
	})
}

// What no proxy would take is not sent.
func TestAskChecked(t *testing.T) {
	c, _ := serve(t, newOurs(t, "a"))
	if _, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Priority: 101}}); err == nil || !strings.Contains(err.Error(), "priority 101: want -100 to 100") {
		t.Errorf("error %v", err)
	}
	_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Name: "a", Key: "k"}})
	if rule, ok := errors.AsType[*leaseapi.RuleError](err); !ok || rule.Part != leaseapi.ParamName || rule.Other != leaseapi.ParamKey {
		t.Errorf("error %v", err)
	}
}
