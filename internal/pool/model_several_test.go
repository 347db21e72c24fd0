package pool

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Requests of several pools, as the model knows them.

// want is how much a request wants of one of its pools.
type want struct {
	pool  *modelPool
	units int
}

func (r *modelRequest) several() bool { return len(r.more) > 0 }

// wants is what r wants of each of its pools, the first one first.
func (r *modelRequest) wants() []want {
	if len(r.all) == 0 || r.all[0].units != r.units {
		r.all = append([]want{{r.pool, r.units}}, r.more...)
	}
	return r.all
}

// in is how many units r wants of p.
func (r *modelRequest) in(p *modelPool) int {
	if p == r.pool {
		return r.units
	}
	for _, w := range r.wants() {
		if w.pool == p {
			return w.units
		}
	}
	return 0
}

// alsoWanted are the other types of q, as its text says: TYPE or TYPE=N a line.
func alsoWanted(text string) (types []string, counts []int) {
	for _, line := range strings.Fields(text) {
		typ, n, _ := strings.Cut(line, "=")
		count, _ := strconv.Atoi(n)
		types, counts = append(types, typ), append(counts, count)
	}
	return types, counts
}

// addWants gives r its other wants: as many units as the text says, or else as the pool does. It
// returns whether all types are known.
func (m *model) addWants(r *modelRequest, text string, isUnits bool) bool {
	types, counts := alsoWanted(text)
	known := true
	for i, typ := range types {
		p := m.pools[typ]
		if isUnits {
			p = m.somePool(typ)
		}
		if p == nil || p.gone && !isUnits {
			known = false
			continue
		}
		units := counts[i]
		if units == 0 {
			units = max(1, p.Unknown)
		}
		r.more = append(r.more, want{p, units})
	}
	if r.passed = nil; r.several() {
		r.passed = make([]int, 1+len(r.more))
	}
	r.all = nil
	return known
}

// recount expects that r, if it says no count, wants one name of each pool that has names now.
func (m *model) recount(r *modelRequest) {
	isListed := func(p *modelPool) bool { return !p.gone && p.Units == 0 }
	if isListed(r.pool) && (r.Count == 0 || r.Count == 1 && !r.Weighted) && r.units > 1 {
		r.units, m.counting[r.ID] = 1, true
	}
	_, counts := alsoWanted(r.Also)
	for i, w := range r.more {
		if isListed(w.pool) && counts[i] == 0 && w.units > 1 {
			r.more[i].units, m.counting[r.ID] = 1, true
		}
	}
	r.all = nil
}

// lacksCost says whether r is for as many names as a number of items costs.
func (r *modelRequest) lacksCost() bool {
	return r.HasItems && r.pool.Units == 0 && (r.Count == 0 || r.Count == 1 && !r.Weighted)
}

// alsoUnits is the durable text of the other wants of r.
func (r *modelRequest) alsoUnits() string {
	var lines []string
	for _, w := range r.more {
		lines = append(lines, fmt.Sprint(w.pool.Type, "=", w.units))
	}
	return strings.Join(lines, "\n")
}

// countSeveral counts r, which has come, or has gone if n is negative.
func (m *model) countSeveral(r *modelRequest, n int) {
	if r.several() {
		m.severals += n
		for _, w := range r.wants() {
			w.pool.severals += n
		}
	}
}

// fitsAll says whether r can be granted in all its pools beside what is in use there.
func (r *modelRequest) fitsAll() bool {
	for _, w := range r.wants() {
		if !w.pool.fits(r) {
			return false
		}
	}
	return true
}

// isShut says whether reservations leave too few for r, or one of several pools of r is paused or too
// small: then r is kept out of all, and does not wait for its key.
func (r *modelRequest) isShut() bool {
	return r.pool.tooFew(r) || r.several() && slices.ContainsFunc(r.wants(), func(w want) bool {
		return w.pool.m.isPaused(w.pool) || w.units > w.pool.capacity() || w.pool.tooFew(r)
	})
}

// isThere says whether r can be a candidate, as far as keys are not concerned.
func (r *modelRequest) isThere() bool { return r.holdsPlace() && !r.isShut() }

// keyLets says whether r is kept out neither by those that hold its key nor by those before it.
func (r *modelRequest) keyLets() bool {
	if r.Key == "" {
		return true
	}
	readers := 0
	for _, other := range r.pool.queue {
		if other == r || stands(r, other) {
			break
		}
		if other.pool != r.pool || other.Key != r.Key || !other.isThere() {
			continue
		}
		if !other.ReadsKey || !r.ReadsKey {
			return false
		}
		readers++
	}
	return !r.pool.shuts(r) && readers < 50
}

// blocks says whether nobody in p overtakes other, a candidate, because it goes as soon as it can.
func (p *modelPool) blocks(other *modelRequest) bool {
	if other.several() {
		return false
	}
	if turn := other.turn(); turn != nil {
		return p.fits(turn)
	}
	return p.fits(other)
}

// left says whether units of p may still go ahead of r, which wants p alone.
func (p *modelPool) left(r *modelRequest, units int) bool {
	return !r.Overcommit && r.overtaken+units <= p.most()
}

// partsOf is units as billionths of most, rounded up.
func partsOf(units, most int) int {
	most = max(most, 1)
	return (units*1_000_000_000 + most - 1) / most
}

// passedInAll is what overtook r in all its pools.
func (r *modelRequest) passedInAll() (sum int) {
	for _, parts := range r.passed {
		sum += parts
	}
	return sum
}

// isKept says whether nobody overtakes r in p: r was overtaken up to its bound, and those of its pools
// where less overtook it have room for it; of two where it is the same, the one that r names first.
func (p *modelPool) isKept(r *modelRequest) bool {
	if p.most() == 0 {
		return true
	}
	if r.passedInAll() < 4_000_000_000 {
		return false
	}
	i := slices.IndexFunc(r.wants(), func(w want) bool { return w.pool == p })
	for j, w := range r.wants() {
		if (r.passed[j] < r.passed[i] || r.passed[j] == r.passed[i] && j < i) && !w.pool.fits(r) {
			return false
		}
	}
	return true
}

// keptFor is the first request of several pools for which p is kept; nil: for none.
func (p *modelPool) keptFor() *modelRequest {
	if p.severals > 0 {
		for _, r := range p.queue {
			if r.several() && p.isKept(r) && r.isThere() && r.keyLets() {
				return r
			}
		}
	}
	return nil
}

// hasRoomBeside says whether the pools beside p have room for r.
func (r *modelRequest) hasRoomBeside(p *modelPool) bool {
	return !slices.ContainsFunc(r.wants(), func(w want) bool { return w.pool != p && !w.pool.fits(r) })
}

// othersLet says whether r, whose turn it is in p, may go in its other pools.
func (p *modelPool) othersLet(r *modelRequest) bool {
	return !slices.ContainsFunc(r.wants(), func(w want) bool {
		return w.pool != p && (w.pool.due() > p.m.now || !w.pool.mayPass(r, w.pool.candidatesBefore(r)))
	})
}

// passes are those that r overtakes in each of its pools.
func (r *modelRequest) passes() (all [][]*modelRequest) {
	for _, w := range r.wants() {
		all = append(all, w.pool.thereBefore(r))
	}
	return all
}

// isFirst says whether nobody that may go in any pool is before r, as it must be while somebody wants
// several pools.
func (m *model) isFirst(r *modelRequest) bool {
	for _, p := range m.order {
		if m.severals == 0 {
			break
		}
		other, _ := p.whoGoes(nil)
		if turn := other.turn(); turn != nil && m.mayGo(turn) && p.fits(turn) && stands(other, r.lead()) {
			return false
		}
	}
	return true
}

// waitsElsewhere is for which pool beside p r waits, for people, and why it waits there.
func (m *model) waitsElsewhere(p *modelPool, r *modelRequest) string {
	for _, w := range r.wants() {
		if why := m.lasting(w.pool, r); w.pool != p && why != "" {
			return "waits for " + w.pool.Type + " too: " + why
		}
	}
	for _, w := range r.wants() {
		q := w.pool
		if q == p || q.fits(r) && q.due() <= m.now && q.mayPass(r, q.candidatesBefore(r)) &&
			(q != r.pool || !q.shuts(r) && !q.behindKey(r)) {
			continue
		}
		if why := m.reasonHere(q, r); why != "" {
			return "waits for " + q.Type + " too: " + why
		}
		return "waits for " + q.Type + " too"
	}
	return "behind"
}

// ttl is the TTL of r: what it asked for, or the default of its first pool, within the bounds of all.
func (r *modelRequest) ttl() time.Duration {
	ttl := r.TTL
	for _, w := range r.wants() {
		ttl = w.pool.ttl(ttl)
	}
	return ttl
}

// heldKey is the key that l holds.
func (l *Lease) heldKey() string {
	if l.AskedType == "" {
		return l.Key
	}
	return ""
}
