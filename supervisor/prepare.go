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

// begin starts the preparation, unless that was done. It does not block.
func (p *preparation) begin() { p.once.Do(func() { p.done.Go(p.do) }) }

// prepareAfter is when a run is prepared although the proxy could not be asked yet. A
// leasectl that waits for its proxy must not be ended by a USR1, say, which ends whoever
// does not handle it.
const prepareAfter = 100 * time.Millisecond

// end waits for a preparation that has begun, and keeps one that has not from beginning.
func (p *preparation) end() {
	p.once.Do(func() {})
	p.done.Wait()
}

// wait begins the preparation if the proxy was not asked, and waits for its end.
func (p *preparation) wait() {
	p.begin()
	p.done.Wait()
}
