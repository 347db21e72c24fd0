package proxyclient

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver"
	"github.com/leasectl/leasectl/leaseapi"
)

// fate is the result of a call, and how many leases are held afterwards.
type fate struct {
	err  error // nil: success
	held int
}

// errAny stands for any definite error: neither ErrUnconfirmed nor ErrLost.
var errAny = errors.New("any")

// after returns f with a Retry-After.
func (f fault) after(text string) fault {
	f.header = http.Header{"Retry-After": {text}}
	return f
}

// faultRow is a fault, and the result of each call that meets it once and would otherwise
// succeed at once.
type faultRow struct {
	name    string
	f       fault
	ours    fate // acquire
	v1      fate
	relOurs fate // release
	relV1   fate
	renew   error // ours only: version 1 has none
}

// final reports whether the fault is an answer that no repetition changes.
func (r faultRow) final() bool {
	return r.ours.err == errAny && r.v1.err == errAny && r.relOurs.err == errAny && r.renew == errAny
}

// faultRows is every kind of fault, once. (A synctest bubble begins on
// 2000-01-01.)
func faultRows() []faultRow {
	granted := fate{held: 1}
	failed := fate{err: errAny}
	unconfirmed := func(held int) fate { return fate{ErrUnconfirmed, held} }
	back, stays, ignored := fate{}, fate{errAny, 1}, fate{errors.ErrUnsupported, 1}
	// Version 1 answers a release with any 2xx and almost no text. So the client accepts
	// the 2xx of other software, unless it is a page. Truncated JSON is no answer.
	believed := fate{held: 1}
	const date = "Sat, 01 Jan 2000 00:00:02 GMT"
	rows := []faultRow{
		{"none", fault{}, granted, granted, back, back, nil},
		{"refused", dialRefused, granted, granted, back, back, nil},
		{"reset before the request is written", resetAtOnce, granted, granted, back, back, nil},
		{"reset while it is written", resetInside, granted, unconfirmed(0), back, back, nil},
		{"reset after it is written", lostRequest, granted, unconfirmed(0), back, back, nil},
		{"answer lost", lostAnswer, granted, unconfirmed(1), back, unconfirmed(0), nil},
		{"half an answer", halfAnAnswer, granted, unconfirmed(1), back, back, nil},
		{"answer that stalls", stalledAnswer, granted, unconfirmed(1), back, back, nil},
		{"answer that comes late", fault{delay: 3 * time.Second}, granted, granted, back, back, nil},
		{"no answer", hanging, granted, fate{ErrExhausted, 0}, back, fate{ErrUnreachable, 1}, nil},
		{"endless answer", endlessAnswer, granted, unconfirmed(0), back, back, nil},
		{"garbage", garbage, granted, unconfirmed(0), back, back, nil},
		{"garbage, done", garbageDone, granted, unconfirmed(1), back, unconfirmed(0), nil},
		{"not HTTP", otherLanguage, granted, unconfirmed(0), back, back, nil},
		{"login page", htmlPage, granted, unconfirmed(0), back, back, errAny},
		{"JSON of something else", fault{status: 200, body: `{"status":"ok"}`}, granted, unconfirmed(0), ignored, believed, errAny},
		{"202 of another request", fault{status: 202, body: `{"request_id":"other","place":1}`}, granted, unconfirmed(0), ignored, believed, errAny},
		{"a grant", fault{status: 200, body: `{"names":["b"]}`}, fate{}, fate{}, ignored, believed, errAny},
		{"a grant of nothing", fault{status: 200, body: `{"names":[]}`}, failed, failed, ignored, believed, errAny},
		{"a grant to another request", fault{status: 200, body: `{"names":["b"],"request_id":"other","leases":[{"name":"b","generation":1}]}`}, failed, unconfirmed(0), ignored, believed, errAny},
		{"a release of another name", fault{status: 200, body: `{"released":["b"]}`}, granted, unconfirmed(0), back, back, errAny},
		{"no content", fault{status: 204}, granted, unconfirmed(0), ignored, believed, errAny},
		{"redirect", fault{status: 307, header: http.Header{"Location": {"https://elsewhere.test/"}}}, failed, failed, stays, stays, errAny},
		{"101", switched, failed, failed, stays, stays, errAny},
		{"103, without end", hints, granted, unconfirmed(0), back, back, nil},
		{"400", status(400), failed, failed, stays, stays, errAny},
		{"401", status(401), failed, failed, stays, stays, errAny},
		{"404 of something else", fault{status: 404, body: "<html>not found</html>"}, failed, failed, back, back, nil},
		{"unknown type", fault{status: 404, body: `Failed to acquire lease "t": resource type not found`}, fate{ErrUnknownType, 0}, fate{ErrUnknownType, 0}, stays, stays, errAny},
		{"ended", problemFault(410, leaseapi.ProblemEnded), fate{ErrEnded, 0}, fate{ErrEnded, 0}, stays, stays, errAny},
		{"unknown request", problemFault(404, leaseapi.ProblemUnknownRequest), failed, failed, stays, stays, errAny},
		{"a wrong request", problemFault(400, leaseapi.ProblemBadRequest), failed, failed, stays, stays, errAny},
		{"another lease is lost", fault{status: 410, header: http.Header{"Content-Type": {leaseapi.ContentTypeProblem}},
			body: `{"type":"urn:leasectl:problem:lost","lost":[{"name":"b","generation":1,"reason":"expired"}]}`}, failed, failed, stays, stays, errAny},
		{"queue full", problemFault(503, leaseapi.ProblemQueueFull), granted, granted, back, back, nil},
		{"the proxy's word that there is nothing", fault{status: 500, body: `Failed to acquire lease "t": resources not found`}, granted, granted, back, back, nil},
		{"its word that it could not", fault{status: 500, body: `Failed to acquire lease "t": the store is away`}, granted, granted, back, back, nil},
	}
	for _, code := range []int{500, 502, 503, 504, 429} {
		v1 := unconfirmed(0)
		if code == 429 {
			v1 = failed // a refusal, like any 4xx
		}
		f := fault{status: code, body: "no"}
		done := fault{status: code, body: "no", done: true}
		rows = append(rows,
			faultRow{fmt.Sprint(code), f, granted, v1, back, back, nil},
			faultRow{fmt.Sprint(code, ", Retry-After in seconds"), f.after("2"), granted, v1, back, back, nil},
			faultRow{fmt.Sprint(code, ", Retry-After as a date"), f.after(date), granted, v1, back, back, nil},
		)
		if code != 429 {
			rows = append(rows, faultRow{fmt.Sprint(code, ", done"), done, granted, unconfirmed(1), back, unconfirmed(0), nil})
		}
	}
	return rows
}

// For one fault of every kind, every call and either kind of proxy, the client says
// truly which leases are held afterwards, and keeps a requested pause. The log has a
// table of the results.
func TestFault(t *testing.T) {
	const calls = 6
	var table [][calls + 1]string
	for _, row := range faultRows() {
		line := [calls + 1]string{row.name}
		for i, c := range []struct {
			name string
			try  func(*testing.T, faultRow) string
		}{
			{"acquire/ours", acquireOurs}, {"acquire/version 1", acquireVersion1},
			{"release/ours", releaseOurs}, {"release/version 1", releaseVersion1},
			{"renew/ours", renewOurs}, {"resize/ours", resizeOurs},
		} {
			bubble(t, row.name+"/"+c.name, func(t *testing.T) {
				begun := time.Now()
				line[i+1] = c.try(t, row)
				asked := row.f.header.Get("Retry-After") != "" && c.name != "acquire/version 1" // which is not sent again
				took := time.Since(begun)
				if asked && took < 2*time.Second {
					t.Errorf("took %s, though a pause of 2 s was asked for", took)
				}
				if row.final() && took > 0 {
					t.Errorf("took %s, though the answer is final", took)
				}
			})
		}
		table = append(table, line)
	}
	var text strings.Builder
	const format = "%-42s %-20s %-20s %-12s %-12s %-6s %s\n"
	fmt.Fprintf(&text, format, "fault", "acquire, ours", "acquire, version 1", "rel., ours", "rel., v. 1", "renew", "resize")
	for _, line := range table {
		fmt.Fprintf(&text, format, line[0], line[1], line[2], line[3], line[4], line[5], line[6])
	}
	t.Logf("\n%s", &text)
}

// came checks the result of a call, and returns a word for it.
func came(t *testing.T, err, wanted error, held, wantHeld int) string {
	t.Helper()
	switch {
	case wanted == errAny && (err == nil || errors.Is(err, ErrUnconfirmed) || errors.Is(err, ErrLost)):
		t.Errorf("error %v, want one that is certain", err)
	case wanted == nil && err != nil, wanted != nil && wanted != errAny && !errors.Is(err, wanted):
		t.Errorf("error %v, want %v", err, wanted)
	}
	if held != wantHeld {
		t.Errorf("%d held, want %d (%v)", held, wantHeld, err)
	}
	word := "ok"
	switch {
	case errors.Is(err, ErrUnconfirmed):
		word = "unconfirmed"
	case err != nil:
		word = "error"
	}
	return fmt.Sprintf("%s, %d held", word, held)
}

func acquireOurs(t *testing.T, row faultRow) string {
	s := newOurs(t, "a", "b")
	c, _ := serve(t, s, row.f)
	g, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute})
	synctest.Wait()
	held, queued := s.state()
	if queued != 0 || err == nil && len(g.Leases) != 1 {
		t.Errorf("%d queued, granted %+v", queued, g)
	}
	return came(t, err, row.ours.err, held, row.ours.held)
}

func acquireVersion1(t *testing.T, row faultRow) string {
	v := newVersion1(t, "a", "b")
	c, _ := serve(t, v, row.f)
	g, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute})
	synctest.Wait()
	held, queued := v.state()
	if queued != 0 || err == nil && len(g.Leases) != 1 {
		t.Errorf("%d queued, granted %+v", queued, g)
	}
	return came(t, err, row.v1.err, len(held), row.v1.held)
}

func releaseOurs(t *testing.T, row faultRow) string {
	s := newOurs(t)
	s.grants["id"] = []leaseapi.Lease{{Name: "a", Generation: 7}}
	c, _ := serve(t, s, row.f)
	_, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Leases: s.grants["id"]})
	synctest.Wait()
	held, _ := s.state()
	return came(t, err, row.relOurs.err, held, row.relOurs.held)
}

func releaseVersion1(t *testing.T, row faultRow) string {
	v := newVersion1(t)
	v.known("a")
	c, _ := serve(t, v, row.f)
	reply, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Names: []string{"a"}, Owner: "job"})
	synctest.Wait()
	held, _ := v.state()
	if err == nil && !slices.Equal(reply.Released, []string{"a"}) {
		t.Errorf("released %v", reply.Released)
	}
	return came(t, err, row.relV1.err, len(held), row.relV1.held)
}

func renewOurs(t *testing.T, row faultRow) string {
	s := newOurs(t)
	c, _ := serve(t, s, row.f)
	r, err := c.Renew(releaseTimeout(t), leases, time.Minute)
	if err == nil && (r.TTL != time.Minute || s.renewed() == 0) {
		t.Errorf("renewed %+v after %d renewals", r, s.renewed())
	}
	word := came(t, err, row.renew, 0, 0)
	word, _, _ = strings.Cut(word, ",")
	return word
}

// resizeOurs makes one resize, which is carried out once, whatever happens to its answer.
// A later copy of the resize does nothing.
func resizeOurs(t *testing.T, row faultRow) string {
	s := newOurs(t)
	s.units = 10
	c, _ := serve(t, s, row.f)
	grow := leaseapi.ResizeRequest{Name: "a", Generation: 7, From: 10, After: new(0), Count: 20}
	now, err := c.Resize(releaseTimeout(t), grow)
	if err == nil && now != (leaseapi.ResizeReply{Units: 20, Resizes: 1}) {
		t.Errorf("resized %+v", now)
	}
	if now, err := c.Resize(releaseTimeout(t), leaseapi.ResizeRequest{Name: "a", Generation: 7, From: s.units, After: new(s.resizes), Count: 10}); err != nil || now.Units != 10 {
		t.Errorf("resized back: %+v, %v", now, err)
	}
	if _, late := c.Resize(releaseTimeout(t), grow); late == nil || s.units != 10 {
		t.Errorf("a late copy: %v; the lease holds %d units", late, s.units)
	}
	word := came(t, err, row.renew, 0, 0)
	word, _, _ = strings.Cut(word, ",")
	return word
}

// An answer to another call is a lost one: its connection is closed, and the call is made again.
func TestAnswerToAnotherCall(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		server, err := proxyserver.New(proxyserver.Options{Pools: []pool.Config{{Type: "t", Names: []string{"a", "b"}}}})
		want(t, err)
		t.Cleanup(func() { server.Close() })
		c, m := serve(t, server)
		m.add(fault{header: http.Header{leaseapi.HeaderCall: {"other"}}})
		g, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t"}, Wait: time.Minute})
		want(t, err)
		pools, err := c.Pools(t.Context())
		want(t, err)
		if len(g.Leases) != 1 || pools[0].InUse != 1 || m.dialled() != 2 {
			t.Errorf("granted %v on %d connections, and the server has %+v", g.Leases, m.dialled(), pools)
		}
	})
}
