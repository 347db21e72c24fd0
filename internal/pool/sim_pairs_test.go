package pool

import "slices"

// features are what a request asks for, what its pools have, and what happens while it waits. A failover is
// a restart elsewhere.
var features = []string{"count", "units", "key", "read", "name", "also", "coalesce", "priority", "overcommit", "pace", "limit", "reservation", "pause", "reload", "restart"}

// apart are the features that do not go together: by [leaseapi.CheckTogether], or since names are of listed pools
// and overcommit is of counted ones.
var apart = map[string][]string{
	"name":        {"count", "units", "key", "read", "also", "coalesce", "overcommit"},
	"coalesce":    {"read", "also"},
	"also":        {"overcommit"},
	"reservation": {"units", "overcommit"},
}

// featurePairs are the pairs of features that go together.
func featurePairs() (all []string) {
	for i, a := range features {
		for _, b := range features[:i] {
			if !slices.Contains(apart[a], b) && !slices.Contains(apart[b], a) {
				all = append(all, b+" × "+a)
			}
		}
	}
	return all
}

// happened is how often something has happened that a request may wait through.
type happened struct{ pauses, reloads, restarts int }

func (m *sim) happened() happened {
	return happened{m.seen["paused"], m.seen["reconfigurations"], m.seen["restarts"] + m.seen["crashes"]}
}

// seePairs counts the pairs of features that meet in grants.
func (m *sim) seePairs(changes []Change) {
	for _, c := range changes {
		switch c.Kind {
		case Queued, Joined:
			if _, waits := m.waitsSince[c.Waiter.ID]; !waits {
				m.waitsSince[c.Waiter.ID] = m.happened()
			}
		case Dropped:
			delete(m.waitsSince, c.ID)
		case Granted:
			met := m.featuresOf(c)
			for i, b := range met {
				for _, a := range met[:i] {
					m.seen[a+" × "+b]++
				}
			}
			delete(m.waitsSince, c.ID)
		}
	}
}

// featuresOf are those of the request that c grants, in their order.
func (m *sim) featuresOf(c Change) (all []string) {
	ask, has := c.Leases[0].Ask, map[string]bool{}
	for _, l := range c.Leases {
		p := m.pools[l.Type]
		has["units"] = has["units"] || p.Units > 0
		has["pace"] = has["pace"] || p.Pace > 0 || p.Hold > 0
		has["limit"] = has["limit"] || p.Adapt != nil && p.limit < p.capacity()
		has["reservation"] = has["reservation"] || len(p.out) > 0
	}
	has["count"], has["key"], has["read"], has["name"] = ask.Count > 1, ask.Key != "", ask.ReadsKey, ask.Name != ""
	has["also"], has["coalesce"], has["priority"], has["overcommit"] = ask.Also != "", ask.Coalesce != 0, ask.Priority != 0, ask.Overcommit
	now, since := m.happened(), m.happened()
	if was, waited := m.waitsSince[c.ID]; waited {
		since = was
	}
	has["pause"], has["reload"], has["restart"] = now.pauses > since.pauses, now.reloads > since.reloads, now.restarts > since.restarts
	for _, f := range features {
		if has[f] {
			all = append(all, f)
		}
	}
	return all
}
