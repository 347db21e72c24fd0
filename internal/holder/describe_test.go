package holder

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// Place, reason, holder, estimate: in this order, and each as far as it is known.
func TestDescribeQueue(t *testing.T) {
	at := time.Date(2026, 3, 4, 15, 0, 0, 0, time.Local)
	minutes := func(n int) leaseapi.Duration { return leaseapi.Duration(n) * leaseapi.Duration(time.Minute) }
	owner := "https://ci.example.com/" + strings.Repeat("job/", 60) + "end"
	for _, tt := range []struct {
		name    string
		queued  leaseapi.Queued
		elapsed time.Duration
		want    string
	}{
		{"nothing", leaseapi.Queued{}, 0, ""},
		{"all", leaseapi.Queued{
			Place: 3, Length: 12, Reason: leaseapi.WaitReason{Kind: leaseapi.WaitFull}, InUse: 32, Capacity: 32,
			Oldest:   &leaseapi.PoolLease{Owner: "job-7", Age: minutes(12)},
			Estimate: minutes(3), EstimateMax: minutes(9),
		}, 0, "place 3 of 12, full, 32 of 32 in use, held longest by job-7 since 14:48:00, 3m to 9m to go"},
		{"paced", leaseapi.Queued{Place: 1, Length: 1, Reason: leaseapi.WaitReason{Kind: leaseapi.WaitPaced}, InUse: 3, Capacity: 32}, 0, "place 1 of 1, paced, 3 of 32 in use"},
		{"wants", leaseapi.Queued{Place: 1, Length: 2, Reason: leaseapi.WaitReason{Kind: leaseapi.WaitUnits, Units: 4}, InUse: 30, Capacity: 32}, 0, "place 1 of 2, wants 4, 30 of 32 in use"},
		{"paused", leaseapi.Queued{Place: 1, Length: 1, Reason: leaseapi.WaitReason{Kind: leaseapi.WaitPaused, Text: "the account\nis suspended"}, Capacity: 2}, 0, "place 1 of 1, paused: the account is suspended, 0 of 2 in use"},
		{"behind", leaseapi.Queued{Place: 2, Length: 2, Reason: leaseapi.WaitReason{Kind: leaseapi.WaitBehind}, InUse: 1, Capacity: 2}, 0, "place 2 of 2, behind, 1 of 2 in use"},
		{"version 1", leaseapi.Queued{Reason: leaseapi.WaitReason{Kind: leaseapi.WaitFull}}, 0, "full"},
		{"no reason", leaseapi.Queued{Place: 1, Length: 1, InUse: 1, Capacity: 1, Estimate: minutes(1)}, 0, "place 1 of 1, 1 of 1 in use"},
		{"a long owner", leaseapi.Queued{Oldest: &leaseapi.PoolLease{Owner: owner}}, 0, "held longest by " + owner + " since 15:00:00"},
		{"a token", leaseapi.Queued{Oldest: &leaseapi.PoolLease{Token: "ci"}}, 0, "held longest by token ci since 15:00:00"},
		{"nobody's", leaseapi.Queued{Oldest: &leaseapi.PoolLease{}}, 0, "held longest by somebody without a name since 15:00:00"},
		{"yesterday's", leaseapi.Queued{Oldest: &leaseapi.PoolLease{Owner: "x", Age: minutes(24 * 60)}}, 0, "held longest by x since 2026-03-03 15:00:00"},

		{"an estimate falls", leaseapi.Queued{Estimate: minutes(3), EstimateMax: minutes(9)}, 2 * time.Minute, "1m to 7m to go"},
		{"below its lower end", leaseapi.Queued{Estimate: minutes(3), EstimateMax: minutes(9)}, 4 * time.Minute, "up to 5m to go"},
		{"at any moment", leaseapi.Queued{EstimateMax: minutes(9)}, 0, "up to 9m to go"},
		{"no range", leaseapi.Queued{Estimate: minutes(9), EstimateMax: minutes(9)}, 0, "about 9m to go"},
		{"it is over", leaseapi.Queued{Estimate: minutes(3), EstimateMax: minutes(9)}, 10 * time.Minute, "longer than expected"},
		{"seconds", leaseapi.Queued{Estimate: leaseapi.Duration(7 * time.Second), EstimateMax: leaseapi.Duration(61 * time.Second)}, 0, "7s to 1m5s to go"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := DescribeQueue(tt.queued, at, at.Add(tt.elapsed)); got != tt.want {
				t.Errorf("says %q,\nwant %q", got, tt.want)
			}
		})
	}
}

// An error says what to do next.
func TestDescribe(t *testing.T) {
	last := &leaseapi.Queued{
		Place: 4, Length: 12, Reason: leaseapi.WaitReason{Kind: leaseapi.WaitFull}, InUse: 32, Capacity: 32,
		Oldest: &leaseapi.PoolLease{Owner: "job-7", Age: leaseapi.Duration(time.Minute)},
	}
	since := time.Now().Add(-time.Minute)
	for _, tt := range []struct {
		err  error
		want []string // in this order
	}{
		{errors.New("anything"), []string{"anything"}},
		{
			fmt.Errorf("acquire: %w", &proxyclient.ExhaustedError{Type: "install", Wait: time.Hour, Last: last}),
			[]string{`no lease of type "install" within 1h (place 4 of 12, full, 32 of 32 in use, held longest by job-7 since `, since.Format("15:04:"), "): try again later, or raise --wait-timeout"},
		},
		{&proxyclient.ExhaustedError{Type: "install"}, []string{`no lease of type "install" is free: try again later`}},
		{
			&proxyclient.ExhaustedError{Type: "install", Last: &leaseapi.Queued{
				Place: 3, Length: 3, InUse: 20, Capacity: 32, Limit: 20, Estimate: leaseapi.Duration(4 * time.Minute), EstimateMax: leaseapi.Duration(9 * time.Minute)}},
			[]string{`no lease of type "install" is free (place 3 of 3, 20 of 32 in use, limit 20): try again in 4m to 9m, or raise --wait-timeout`},
		},
		{fmt.Errorf("%w: %w", proxyclient.ErrUnreachable, x509.UnknownAuthorityError{}), []string{"unknown authority", "--ca"}},
		{x509.HostnameError{Certificate: new(x509.Certificate), Host: "proxy"}, []string{"the certificate has no name: ask the operator"}},
		{x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"a.test", "b.test"}}, Host: "proxy"}, []string{"valid for a.test, b.test, not proxy: use a name of the certificate in --proxy"}},
		{x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"a.test", "b.test"}}, Host: "127.0.0.1"}, []string{"any IP SANs: use a name of the certificate in --proxy: a.test, b.test"}},
		{&proxyclient.UnreachableError{Proxy: "http://proxy", Refused: true, Err: errors.New("refused")}, []string{"is it running, and is --proxy right?"}},
		{&proxyclient.UnreachableError{Proxy: "http://locl", Refused: true, Err: errors.New("no such host")}, []string{"no such host: did you mean --proxy local"}},
		{&proxyclient.UnknownTypeError{Type: "install", Listed: true}, []string{"leasectl status lists the types"}},
	} {
		rest := Describe(tt.err)
		for _, want := range tt.want {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%v: says %q, want %q", tt.err, Describe(tt.err), want)
			}
			rest = after
		}
	}
}

// The advice of an error comes after the advice about its reason. No advice is said twice.
func TestAdvice(t *testing.T) {
	refused := &proxyclient.UnreachableError{Proxy: "http://proxy", Refused: true, Err: errors.New("refused")}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{advise(errors.New("anything"), "keep %s", "h"), "anything (keep h)"},
		{fmt.Errorf("late: %w", advise(refused, "keep %s", "h")), "late: lease proxy does not answer: http://proxy: refused: is it running, and is --proxy right? (keep h)"},
	} {
		if got := Describe(tt.err); got != tt.want {
			t.Errorf("says %q, want %q", got, tt.want)
		}
	}
}
