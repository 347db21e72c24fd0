package shared

import (
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/service"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Round is a round of a shared lease of this machine, as its record shows it.
type Round struct {
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
	Service *RoundService `json:"service,omitempty"`
}

// RoundService is the service of a round.
type RoundService struct {
	Command  string    `json:"command"`
	State    string    `json:"state"` // "starting", "running", "stopping", or why it is over
	Group    int       `json:"group,omitempty"`
	Since    time.Time `json:"since,omitzero"` // when it was started
	LastLine string    `json:"last_line"`      // that it printed; "": none
}

// serviceOf describes the service of a round; nil if there is none.
func serviceOf(file lockfile.Shared, r *lockfile.Round) *RoundService {
	s := r.Service
	if s == nil {
		return nil
	}
	shown := &RoundService{Command: s.Command, State: "running", Group: s.Group, Since: s.Since, LastLine: service.LastLine(file.LogPath(r.ID))}
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

// Rounds returns the rounds of all shared leases in the state directory that are of this
// boot, PID namespace and time namespace. It takes no lock. With an error it returns the rounds
// that it read before.
func Rounds(h *holder.Holder) (rounds []Round, err error) {
	files, err := Files(h)
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
			shown := Round{
				Name: record.Name, Type: r.Type, Proxy: proxyclient.Redacted(r.Proxy), Round: r.ID, State: r.State, Names: r.Names(),
				Uses: r.Uses, Bound: r.Bound, Since: r.Since, Users: file.LiveUsers(r), Service: serviceOf(file, &r),
			}
			rounds = append(rounds, shown)
		}
	}
	return rounds, nil
}
