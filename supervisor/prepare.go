package supervisor

import (
	"sync"
	"time"

	"github.com/leasectl/leasectl/trap/child"
)

// preparation is what a run needs before its first command starts, and what depends on
// no lease: the handlers of the signals that are forwarded. It begins when the proxy has
// been asked for the lease, since leasectl has nothing else to do until the answer comes.
// Before the request it would delay that, and after the answer the command.
type preparation struct {
	do   func()
	once sync.Once
	done sync.WaitGroup
}

// newPreparation returns the preparation of a run, which has not begun. ready is closed
// when leasectl hears what asks it to end, which comes first.
func newPreparation(s *signals, ready <-chan struct{}) *preparation {
	return &preparation{do: func() {
		<-ready
		s.listen()
		child.Prepare()
	}}
}

// begin begins it, unless it has begun. It does not block.
func (p *preparation) begin() { p.once.Do(func() { p.done.Go(p.do) }) }

// prepareAfter is when a run is prepared although the proxy could not be asked yet, so
// that a signal that nobody handles does not end a leasectl that waits for it.
const prepareAfter = 100 * time.Millisecond

// end waits for its end, and keeps it from beginning.
func (p *preparation) end() {
	p.once.Do(func() {})
	p.done.Wait()
}

// wait waits for its end, and begins it if the proxy was not asked.
func (p *preparation) wait() {
	p.begin()
	p.done.Wait()
}
