package proxyserver

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// Numbers and times at the limits of their types are refused with 400, or mean what they say: none wraps
// around, so that a lease ends at once, or a wait does not wait.
func TestNumbersAtTheirLimits(t *testing.T) {
	const (
		longest = "2562047h47m16.854775807s" // 292 years
		longer  = "2562047h47m16.854775808s"
		most    = "9223372036854775807"
		more    = "9223372036854775808"
	)
	for _, c := range []struct {
		name, method, target, body string
		want                       []int
	}{
		{"ttl", "POST", leaseapi.PathAcquire + "?type=q&request_id=a&ttl=" + longest, "", []int{200, 400}},
		{"longer ttl", "POST", leaseapi.PathAcquire + "?type=q&request_id=a&ttl=" + longer, "", []int{400}},
		{"wait", "POST", leaseapi.PathAcquire + "?type=q&request_id=a&count=4&wait=" + longest, "", []int{202}},
		{"longer wait", "POST", leaseapi.PathAcquire + "?type=q&request_id=a&count=4&wait=" + longer, "", []int{400}},
		{"negative wait", "POST", leaseapi.PathAcquire + "?type=q&request_id=a&wait=-" + longest, "", []int{400}},
		{"count", "POST", leaseapi.PathAcquire + "?type=q&request_id=a&count=" + most, "", []int{400}},
		{"more", "POST", leaseapi.PathAcquire + "?type=q&request_id=a&count=" + more, "", []int{400}},
		{"units", "POST", leaseapi.PathAcquire + "?type=u&request_id=a&count=" + most, "", []int{400}},
		{"more units", "POST", leaseapi.PathAcquire + "?type=u&request_id=a&count=18446744073709551616", "", []int{400}},
		{"items", "POST", leaseapi.PathAcquire + "?type=u&request_id=a&items=" + most, "", []int{400}},
		{"overcommit", "POST", leaseapi.PathAcquire + "?type=u&request_id=a&overcommit=true&count=" + most, "", []int{400}},
		{"also", "POST", leaseapi.PathAcquire + "?type=q&request_id=a&also=u%3D" + most, "", []int{400}},
		{"priority", "POST", leaseapi.PathAcquire + "?type=q&request_id=a&priority=-" + more, "", []int{400}},
		{"replaced generation", "POST", leaseapi.PathAcquire + "?type=q&request_id=a&replaces=q-0:18446744073709551616", "", []int{400}},
		{"renewal", "POST", leaseapi.PathRenew, `{"leases":[LEASE],"ttl":"` + longest + `"}`, []int{200}},
		{"longer renewal", "POST", leaseapi.PathRenew, `{"leases":[LEASE],"ttl":"` + longer + `"}`, []int{400}},
		{"negative renewal", "POST", leaseapi.PathRenew, `{"leases":[LEASE],"ttl":"-` + longest + `"}`, []int{400}},
		{"late release", "POST", leaseapi.PathRelease, `{"leases":[LEASE],"delay":"` + longest + `"}`, []int{200, 400}},
		{"later release", "POST", leaseapi.PathRelease, `{"leases":[LEASE],"delay":"` + longer + `"}`, []int{400}},
		{"names of an age", "POST", leaseapi.PathRelease, `{"names":["q-0"],"owner":"it","known_for":"` + longest + `"}`, []int{200}},
		{"exit code", "POST", leaseapi.PathRelease, `{"leases":[LEASE],"exit_code":` + most + `}`, []int{400}},
		{"exit code 256", "POST", leaseapi.PathRelease, `{"leases":[LEASE],"exit_code":256}`, []int{400}},
		{"growth", "POST", leaseapi.PathResize, `{"name":"u-1","generation":UGEN,"from":1,"after":0,"count":` + most + `}`, []int{400, 409}},
		{"growth from", "POST", leaseapi.PathResize, `{"name":"u-1","generation":UGEN,"from":` + most + `,"after":` + most + `,"count":2}`, []int{409}},
		{"growth by items", "POST", leaseapi.PathResize, `{"name":"u-1","generation":UGEN,"from":1,"after":0,"items":` + most + `}`, []int{400}},
		{"reservation", "POST", leaseapi.PathReserve, `{"name":"q-0","owner":"o","reason":"x","for":"` + longest + `"}`, []int{200, 400}},
		{"longer reservation", "POST", leaseapi.PathReserve, `{"name":"q-0","owner":"o","reason":"x","for":"` + longer + `"}`, []int{400}},
		{"priority of a move", "POST", leaseapi.PathMove, `{"request_id":"waits","reason":"x","priority":` + most + `}`, []int{400}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, Options{Pools: []pool.Config{
					quota(4), {Type: "u", Units: pool.MaxUnits, Overcommit: pool.MaxUnits},
				}})
				l := p.granted("type=q&request_id=held&owner=it").Leases[0]
				u := p.granted("type=u&request_id=units&count=1").Leases[0]
				p.do("POST", leaseapi.PathRenew, withLeases(l, u))
				waits := p.later(t.Context(), "type=q&request_id=waits&wait=1h&count=4")
				synctest.Wait()
				in := strings.NewReplacer("LEASE", `{"name":"`+l.Name+`","generation":`+num(l.Generation)+`}`, "UGEN", num(u.Generation))
				r := p.do(c.method, c.target, in.Replace(c.body))
				if !slices.Contains(c.want, r.status) {
					t.Errorf("%d %.300s, want %v", r.status, r.body, c.want)
				}
				time.Sleep(20 * time.Second)
				if c.name == "names of an age" {
					p.release(`{"request_ids":["waits"]}`)
					<-waits
					return
				}
				if held := p.holders(); held[l.Name] != l.Generation {
					t.Errorf("%s has ended: %v, after %d %.300s", l.Name, held, r.status, r.body)
				}
				select {
				case r := <-waits:
					if r.status == 202 {
						break // a slice is over
					}
					t.Errorf("it waits no more: %d %.300s", r.status, r.body)
				default:
				}
			})
		})
	}
}
