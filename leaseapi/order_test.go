package leaseapi

import "testing"

func TestOrderInWords(t *testing.T) {
	for _, c := range []struct {
		order Order
		want  string
	}{
		{Order{}, ""},
		{Order{MayOvertake: 1024}, ""},
		{Order{Higher: 3}, "behind 3 of higher priority"},
		{Order{Priority: -5, Overtaken: 288, MayOvertake: 1024}, "priority -5, 288 of 1024 units went ahead of it"},
		{Order{Overtaken: 8, MayOvertake: 4}, "8 of 8 units went ahead of it"}, // the pool has become smaller
	} {
		if got := c.order.Words(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.order, got, c.want)
		}
	}
}

func TestCheckPriority(t *testing.T) {
	for priority, ok := range map[int]bool{0: true, 100: true, -100: true, 101: false, -101: false} {
		if err := CheckPriority(priority); (err == nil) != ok {
			t.Errorf("%d: %v", priority, err)
		}
	}
}
