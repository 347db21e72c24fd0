package supervisor

import "testing"

// A run is prepared once: when the proxy has been asked, which may be more than once, or
// else before the command starts.
func TestPreparation(t *testing.T) {
	for _, asked := range []int{0, 1, 3} {
		prepared := 0
		p := preparation{do: func() { prepared++ }}
		for range asked {
			p.begin()
		}
		p.wait()
		p.wait()
		if prepared != 1 {
			t.Errorf("asked %d times: prepared %d times", asked, prepared)
		}
	}
	p := preparation{do: func() { t.Error("prepared after the end") }}
	p.end()
	p.begin()
	p.done.Wait()
}
