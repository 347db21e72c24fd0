package proxyserver

import "time"

// watch notes how the pools of t stand at the end of each minute, until stop.
func (h *past) watch(stop <-chan struct{}, t *term) {
	for {
		now := t.clock.read()
		h.levels(now, t.totals())
		select {
		case <-stop:
			return
		case <-t.failed:
			return
		case <-time.After(now.Truncate(time.Minute).Add(time.Minute).Sub(now)):
		}
	}
}
