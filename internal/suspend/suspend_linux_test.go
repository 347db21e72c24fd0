package suspend

import "testing"

// The watch for resumes ends when it is stopped, and reports no resume that did not happen.
func TestResumes(t *testing.T) {
	c, stop := Resumes()
	if c == nil {
		t.Skip("this kernel has no timer that tells of a resume")
	}
	stop() // returns only when the goroutine has ended
	select {
	case <-c:
		t.Error("a resume out of nothing")
	default:
	}
}
