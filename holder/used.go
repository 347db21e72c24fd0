package holder

import (
	"sync"

	"github.com/leasectl/leasectl/leaseapi"
)

// peaks are what commands used of leases that were not given back yet, by request
// id. They go with the release, whichever part of this process sends it.
type peaks struct {
	mu        sync.Mutex
	byRequest map[string]leaseapi.Peak
}

func (p *peaks) set(request string, peak leaseapi.Peak) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byRequest == nil {
		p.byRequest = make(map[string]leaseapi.Peak)
	}
	p.byRequest[request] = peak
}

// of returns the peak of a request; nil if none is known.
func (p *peaks) of(request string) *leaseapi.Peak {
	p.mu.Lock()
	defer p.mu.Unlock()
	if peak, known := p.byRequest[request]; known {
		return &peak
	}
	return nil
}
