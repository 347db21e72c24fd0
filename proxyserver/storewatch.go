package proxyserver

import "time"

// storeEvery is how often the store is checked while nothing is committed: as soon as it is
// gone, a second server may begin in its place.
const storeEvery = time.Second

// watchStore fails the term when its store is gone, until stop.
func (t *term) watchStore(stop <-chan struct{}) {
	if t.store == nil {
		return
	}
	ticker := time.NewTicker(storeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.failed:
			return
		case <-ticker.C:
			t.checkStore()
		}
	}
}

// checkStore fails the term if its store is gone.
func (t *term) checkStore() {
	select {
	case t.commitSem <- struct{}{}:
	default:
		return // the commit under way checks by itself
	}
	defer func() { <-t.commitSem }()
	if err := t.store.Check(); err != nil {
		t.fail(t.storeFailed(err))
	}
}
