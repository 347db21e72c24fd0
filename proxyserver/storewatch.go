package proxyserver

import "time"

// storeEvery is how often the store is looked at while nothing is committed: a
// second server may begin at its place as soon as it is gone.
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
		return // the commit that is under way looks by itself
	}
	defer func() { <-t.commitSem }()
	if err := t.store.Check(); err != nil {
		t.fail(t.storeFailed(err))
	}
}
