package leaseapi

import (
	"fmt"
	"strconv"
	"strings"
)

// FormatReplaces returns the value of [ParamReplaces] for leases: NAME:GENERATION,…
func FormatReplaces(leases []Lease) string {
	var b strings.Builder
	for i, l := range leases {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(l.Name)
		b.WriteByte(':')
		b.WriteString(strconv.FormatUint(l.Generation, 10))
	}
	return b.String()
}

// ParseReplaces is the reverse of [FormatReplaces]. A name may have commas and colons: a comma
// separates two leases only after a generation.
func ParseReplaces(value string) (leases []Lease, err error) {
	from := 0 // where the present lease begins
	for at := 0; at <= len(value); at++ {
		if at < len(value) && value[at] != ',' {
			continue
		}
		l, ok := parseReplaced(value[from:at])
		switch {
		case ok && len(leases) == MaxReplaces:
			return nil, fmt.Errorf("more than %d leases to replace", MaxReplaces)
		case ok:
			leases, from = append(leases, l), at+1
		case at == len(value):
			return nil, fmt.Errorf("%q is no lease to replace: want NAME:GENERATION", Shorten(value[from:]))
		}
	}
	return leases, nil
}

func parseReplaced(text string) (l Lease, ok bool) {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 || CheckName(text[:colon]) != nil {
		return Lease{}, false
	}
	generation, err := strconv.ParseUint(text[colon+1:], 10, 64)
	return Lease{Name: text[:colon], Generation: generation}, err == nil && generation > 0
}
