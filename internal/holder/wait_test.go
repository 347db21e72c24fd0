package holder

import (
	"errors"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// The trouble of a wait lasts until the proxy says something about the queue.
func TestWaitTrouble(t *testing.T) {
	w := new(Wait)
	heard := w.Heard()
	select {
	case <-heard:
		t.Fatal("heard before anything was said")
	default:
	}
	since := time.Now()
	w.SetTrouble(errors.New("refused"), since)
	<-heard
	if got := w.Trouble(); got.Err == nil || got.Since != since {
		t.Errorf("trouble is %v since %v, want it since %v", got.Err, got.Since, since)
	}
	w.SetTrouble(nil, time.Time{})
	if got := w.Trouble(); got.Err != nil {
		t.Errorf("trouble %v is left after a good answer", got)
	}
	w.SetTrouble(errors.New("refused"), since)
	w.SetQueued(leaseapi.Queued{Place: 1})
	if got := w.Trouble(); got.Err != nil || !got.Since.IsZero() {
		t.Errorf("trouble %v is left", got)
	}
}
