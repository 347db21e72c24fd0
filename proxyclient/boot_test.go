package proxyclient

import (
	"testing"
	"time"
)

// An instant survives the way through a record of another process.
func TestSinceBoot(t *testing.T) {
	at := Now().Add(time.Hour)
	if off := AfterBoot(at.SinceBoot()).Sub(at); off.Abs() > 10*time.Second {
		t.Errorf("it is off by %v", off)
	}
	if since := Now().SinceBoot(); since <= 0 {
		t.Errorf("the machine booted %v ago", since)
	}
}
