package proxyclient

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// What decides which answers a call can have. If something on the way repeats bytes of a
// connection, a call may read an answer to an earlier request, or one that was changed: the
// connection is out of step. Such an answer counts as a lost one. The connection is closed, and the
// client finds out on another connection what became of the request: it asks for an acquire by its id, and
// sends other calls again, which does no harm.
//
// A server of wire 4 says which attempt an answer is for: see [leaseapi.HeaderCall]. The answers of
// an older one tell it by their words only. A version-1 proxy has few words and no ids, so each call
// to it has a connection of its own: see [exchange.begin].

// errOutOfStep is the error of an attempt that read an answer that it cannot have.
var errOutOfStep = errors.New("the answer belongs to another request")

// canHave reports whether a, which has the header of this attempt or none, can be the answer to q.
func (q *call) canHave(a answer) bool {
	switch {
	case a.Header.Get(leaseapi.HeaderCall) == "" && q.othersWords(a):
		return false
	case a.Header.Get(leaseapi.HeaderStore) != "" && brokenObject(a.body): // a server of ours writes no such JSON
		return false
	}
	return q.mine == nil || q.mine(a)
}

// othersWords reports whether a has words that only answers to other calls have.
func (q *call) othersWords(a answer) bool {
	var fields map[string]json.RawMessage
	if a.StatusCode/100 == 2 {
		_ = json.Unmarshal(a.body, &fields) // another body has none
	}
	for _, w := range allWords {
		if w.in(a, fields) {
			return !w.of(q.path)
		}
	}
	return false
}

// words are what only the answers of some calls have.
type words struct {
	paths    []string // of the calls; a path that ends with a slash stands for all below it
	problems []string // types of problems
	field    string   // of the JSON object of a success
	text     string   // begins an error of version 1
	status   int      // of a success without a body
}

// allWords lists the words of all calls. The first that fit an answer count.
var allWords = []words{
	{paths: []string{leaseapi.PathRequests}, field: "state"},
	{paths: []string{leaseapi.PathAcquire}, field: "names", text: leaseapi.TextAcquireFailed, problems: []string{
		leaseapi.ProblemConflict, leaseapi.ProblemQueueFull, leaseapi.ProblemShareUsed, leaseapi.ProblemExhausted, leaseapi.ProblemCoalesced, leaseapi.ProblemSuperseded,
	}},
	{paths: []string{leaseapi.PathAcquire}, field: "place"},
	{paths: []string{leaseapi.PathAcquire, leaseapi.PathRemove}, problems: []string{leaseapi.ProblemEnded, leaseapi.ProblemRemoved}},
	{paths: []string{leaseapi.PathRelease}, field: "released", text: leaseapi.TextReleaseFailed, status: http.StatusNoContent},
	{paths: []string{leaseapi.PathRenew}, field: "renew_every"},
	{paths: []string{leaseapi.PathRenew, leaseapi.PathResize}, problems: []string{leaseapi.ProblemLost}},
	{paths: []string{leaseapi.PathResize}, field: "units", problems: []string{
		leaseapi.ProblemNoRoom, leaseapi.ProblemTooMany, leaseapi.ProblemStale, leaseapi.ProblemNotCounted,
	}},
	{paths: []string{leaseapi.PathReport}, field: "counts", problems: []string{leaseapi.ProblemNoLease}},
	{paths: []string{leaseapi.PathRequests, leaseapi.PathReport, leaseapi.PathRemove}, problems: []string{leaseapi.ProblemUnknownRequest}},
	{paths: []string{leaseapi.PathBreak}, field: "ended", problems: []string{leaseapi.ProblemNotHeld}},
	{paths: []string{leaseapi.PathReserve}, field: "reservation", problems: []string{leaseapi.ProblemReserved}},
	{paths: []string{leaseapi.PathBreak, leaseapi.PathReserve, leaseapi.PathAcquire}, problems: []string{leaseapi.ProblemUnknownName}},
	{paths: []string{leaseapi.PathRemove}, problems: []string{leaseapi.ProblemNotQueued}},
	{paths: []string{leaseapi.PathRequests, leaseapi.PathRemove, leaseapi.PathMove}, problems: []string{leaseapi.ProblemSeveral}},
	{paths: []string{leaseapi.PathPause, leaseapi.PathResume}, problems: []string{leaseapi.ProblemUnknownType}},
	{paths: []string{leaseapi.PathBackup}, problems: []string{leaseapi.ProblemNoStore}},
	{paths: []string{leaseapi.PathPools}, field: "pools"},
	{paths: []string{leaseapi.PathHealth}, field: "durable"},
}

// of reports whether the words are for the call of path, which may have a query.
func (w *words) of(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	return slices.ContainsFunc(w.paths, func(p string) bool {
		return p == path || strings.HasSuffix(p, "/") && strings.HasPrefix(path, p)
	})
}

// in reports whether a, whose JSON object has these fields, has the words.
func (w *words) in(a answer, fields map[string]json.RawMessage) bool {
	if p, ok := a.problem(); ok {
		return slices.Contains(w.problems, p.Type)
	}
	if a.StatusCode/100 != 2 {
		return w.text != "" && a.begins(w.text)
	}
	return w.status != 0 && a.StatusCode == w.status || w.field != "" && fields[w.field] != nil
}

// mine reports whether an answer speaks of this acquire: of its id, its type, and the leases that
// it replaces.
func (a *acquisition) mine(got answer) bool {
	r := &a.request
	ours := got.Header.Get(leaseapi.HeaderStore) != ""
	switch {
	case got.isPage():
	case got.StatusCode == http.StatusOK:
		var reply leaseapi.AcquireReply
		if got.decode(&reply) != nil || len(reply.Names) == 0 || !replaced(r.Replaces, reply.Stale) {
			return false
		}
		return reply.RequestID == "" && (!ours || a.oneByOne) || reply.RequestID == r.RequestID && reply.TTL > 0
	case got.StatusCode == http.StatusAccepted:
		var place leaseapi.Queued
		return got.decode(&place) == nil && place.RequestID == r.RequestID && replaced(r.Replaces, place.Stale)
	case got.begins(leaseapi.TextAcquireFailed):
		return got.begins(leaseapi.TextAcquireFailed + strconv.Quote(leaseapi.Shorten(r.Type)) + ":")
	}
	return true
}

// replaced reports whether the stale leases are among those that a request replaces.
func replaced(all []leaseapi.Lease, stale []leaseapi.Lost) bool {
	return !slices.ContainsFunc(stale, func(l leaseapi.Lost) bool { return !slices.Contains(all, l.Lease) })
}

// mine reports whether a speaks of the request with that id. The detail of our server's problem
// names the id.
func mineByID(id string) func(answer) bool {
	return func(a answer) bool {
		var r leaseapi.RequestReply
		if a.StatusCode == http.StatusOK && a.decode(&r) == nil {
			return r.RequestID == "" || r.RequestID == id
		}
		p, _ := a.problem()
		return p.Type != leaseapi.ProblemUnknownRequest || p.Detail == "" || slices.Contains(strings.Fields(p.Detail), id)
	}
}

// mine reports whether a says that leases were renewed, or that some of them are lost.
func (r *renewal) mine(a answer) bool {
	if a.StatusCode != http.StatusOK || a.isPage() {
		return onlyLost(a, r.leases)
	}
	var reply leaseapi.RenewReply
	return a.decode(&reply) == nil && reply.TTL > 0
}

// mineByResize returns what reports whether an answer says how r ended.
func mineByResize(r leaseapi.ResizeRequest) func(answer) bool {
	return func(a answer) bool {
		if a.StatusCode != http.StatusOK || a.isPage() {
			return onlyLost(a, []leaseapi.Lease{{Name: r.Name, Generation: r.Generation}})
		}
		var reply leaseapi.ResizeReply
		return a.decode(&reply) == nil && reply.Units > 0 && (r.Count == 0 || reply.Units == r.Count)
	}
}

// onlyLost reports whether the leases that a says are lost, if any, are among these.
func onlyLost(a answer, leases []leaseapi.Lease) bool {
	p, _ := a.problem()
	return !slices.ContainsFunc(p.Lost, func(l leaseapi.Lost) bool {
		return !slices.ContainsFunc(leases, func(mine leaseapi.Lease) bool { return mine.Name == l.Name })
	})
}

// mineByNames returns what reports whether a reply to a release speaks of all these names, and
// of no other.
func mineByNames(names []string) func(answer) bool {
	return func(a answer) bool {
		reply, ok := a.releaseReply()
		if !ok || a.StatusCode != http.StatusOK {
			return true
		}
		settled := slices.Clone(reply.Released)
		for _, l := range reply.Stale {
			settled = append(settled, l.Name)
		}
		return len(without(names, settled))+len(without(settled, names)) == 0
	}
}

// doubtfulProblems are what a server of ours answers to a request that it takes for a wrong one.
var doubtfulProblems = []string{
	leaseapi.ProblemBadRequest, leaseapi.ProblemNotFound, leaseapi.ProblemMethod, leaseapi.ProblemUnauthorized, leaseapi.ProblemForbidden,
}

// textBadRequest begins what net/http says to a request that it cannot read. It ends with the
// connection, so a client may get only a part of it, and not notice.
const textBadRequest = "400 Bad Request"

// doubtful reports whether a says that the request itself is wrong, in the words of a server of
// ours or of net/http, and so was not carried out. The client does not send such a request, unless
// its caller or its configuration is wrong; repeated bytes make one of a good one.
func (a answer) doubtful() bool {
	if p, ok := a.problem(); ok {
		return slices.Contains(doubtfulProblems, p.Type)
	}
	switch a.StatusCode {
	case http.StatusBadRequest, http.StatusMethodNotAllowed:
		return a.begins(textBadRequest) || strings.HasPrefix(textBadRequest, string(a.body)) || a.Header.Get(leaseapi.HeaderStore) != "" && !a.begins(leaseapi.TextAcquireFailed)
	}
	return false
}
