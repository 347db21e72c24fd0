package holder

import (
	"time"

	"github.com/leasectl/leasectl/holder/service"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// SharedRound is a round of a shared lease of this machine, as its record shows it.
type SharedRound struct {
	Name  string              `json:"name"` // NAME, made printable
	Type  string              `json:"type"`
	Proxy string              `json:"proxy"`
	Round string              `json:"round"` // id
	State lockfile.RoundState `json:"state"`
	Names []string            `json:"names"` // of its leases; none while it is being acquired
	Uses  int                 `json:"uses"`  // reserved so far
	Bound int                 `json:"bound,omitempty"`
	Users int                 `json:"users"`          // that live
	Since time.Time           `json:"since,omitzero"` // when the lease was acquired
	// Service is the process that comes with the lease; nil: there is none.
	Service *SharedService `json:"service,omitempty"`
}

// SharedService is the service of a round.
type SharedService struct {
	Command  string    `json:"command"`
	State    string    `json:"state"` // "starting", "running", "stopping", or why it is over
	Group    int       `json:"group,omitempty"`
	Since    time.Time `json:"since,omitzero"` // when it was started
	LastLine string    `json:"last_line"`      // that it printed; "": none
}

// serviceOf describes the service of a round; nil if there is none.
func serviceOf(file lockfile.Shared, r *lockfile.Round) *SharedService {
	s := r.Service
	if s == nil {
		return nil
	}
	shown := &SharedService{Command: s.Command, State: "running", Group: s.Group, Since: s.Since, LastLine: service.LastLine(file.LogPath(r.ID))}
	switch {
	case s.Over != "":
		shown.State = "over: " + s.Over
	case r.State == lockfile.RoundReleasing:
		shown.State = "stopping"
	case r.State == lockfile.RoundStarting || r.State == lockfile.RoundAcquiring:
		shown.State = "starting"
	case !file.Kept(r.ID):
		shown.State = "over: its keeper was killed"
	}
	return shown
}

// SharedRounds returns the rounds of all shared leases in the state directory that are of this
// boot, PID namespace and time namespace. It takes no lock. With an error it returns the rounds
// that it read before.
func (h *Holder) SharedRounds() (rounds []SharedRound, err error) {
	files, err := lockfile.SharedIn(h.sharedDir())
	if err != nil {
		return nil, err
	}
	boot, space := bootID(), processSpace()
	for _, file := range files {
		record, err := file.Read()
		if err != nil {
			return rounds, err
		}
		if record.Boot != boot || record.Space != space {
			continue
		}
		for _, r := range record.Rounds {
			shown := SharedRound{
				Name: record.Name, Type: r.Type, Proxy: proxyclient.Redacted(r.Proxy), Round: r.ID, State: r.State, Names: r.Names(),
				Uses: r.Uses, Bound: r.Bound, Since: r.Since, Users: file.LiveUsers(r), Service: serviceOf(file, &r),
			}
			rounds = append(rounds, shown)
		}
	}
	return rounds, nil
}
