package proxyserver

import (
	"time"

	"github.com/leasectl/leasectl/pool"
)

// SetPools makes pools what the server has from now on, as
// [pool.Set.Reconfigure] says; whoever waits for what is gone is answered. An
// error says why nothing has changed. It is safe to call while the server
// serves, and returns when all it did is durable.
func (s *Server) SetPools(pools []pool.Config) error {
	var refused error
	err := s.do(func(now time.Duration) { refused = s.set.Reconfigure(now, pools) })
	if err != nil {
		return err
	}
	if refused == nil {
		s.metrics.configured(pools)
	}
	return refused
}
