package leaseapi

import (
	"strings"
	"testing"
)

// Lists of elements that are nothing on the wire, and hundreds of bytes in memory, are refused; all that ours have is not.
func TestCheckLists(t *testing.T) {
	many := func(element string) string { return strings.Repeat(element+",", MaxBody/(len(element)+1)-1) + element }
	for name, test := range map[string]struct {
		text    string
		refused bool
	}{
		"objects":            {`{"pools":[` + many(`{}`) + `]}`, true},
		"numbers":            {`{"pools":[` + many(`0`) + `]}`, true},
		"nulls, indented":    {`{"pools" : [` + many(" null\n") + `]}`, true},
		"lists":              {`{"pools":[` + many(`[]`) + `]}`, true},
		"texts":              {`{"pools":[` + many(`""`) + `]}`, true},
		"in another list":    {`{"pools":[{"names":["a"],"leases":[` + many(`0`) + `]}]}`, true},
		"a text like a list": {`{"names":["\"released"],"leases":[` + many(`0`) + `]}`, true},
		"texts as names":     {`{"pools":[{"names":[` + many(`""`) + `]}]}`, true},
		"numbers as names":   {`{"names":[` + many(`0`) + `]}`, true},
		"short lists":        {`{"pools":[` + many(`{"leases":[0]}`) + `]}`, true},
		"names":              {`{"request_id":"R","names":[` + many(`"install-0"`) + `]}`, false},
		"released names":     {`{"released":[` + many(`"a"`) + `]}`, false},
		"leases":             {`{"leases":[` + many(`{"name":"a","generation":1,"request_id":"XXXXXXXXXXXXXXXXXXXXXXXXXX"}`) + `]}`, false},
		"one text":           {`{"detail":"` + many(`{0`) + `"}`, false},
		"no JSON":            {many(`}`), false},
		"half a text":        {`{"detail":"` + many(`0`) + `\`, false},
	} {
		if err := CheckLists([]byte(test.text)); (err != nil) != test.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
