package main

import (
	"syscall"

	"github.com/leasectl/leasectl/trap"
)

// hangups makes SIGHUP ask for a reload instead of ending the program, until restore is called. A
// SIGHUP that comes while another one waits in asked changes nothing.
func (a *app) hangups() (asked <-chan struct{}, restore func()) {
	ask := make(chan struct{}, 1)
	remove := a.chain.OnSignal(func(e trap.Event) error {
		if e.Signal == syscall.SIGHUP {
			select {
			case ask <- struct{}{}:
			default:
			}
		}
		return nil
	})
	a.staysOnHangup.Store(true)
	return ask, func() {
		a.staysOnHangup.Store(false)
		remove()
	}
}
