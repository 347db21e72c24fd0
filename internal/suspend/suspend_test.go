package suspend

import "testing"

// The time suspended is the same at any time between two suspends.
func TestTotal(t *testing.T) {
	first := Total()
	for range 1000 {
		if d := Total() - first; d.Abs() >= Shortest {
			t.Fatalf("suspended for %s just now", d)
		}
	}
	if first < 0 {
		t.Errorf("suspended for %s", first)
	}
}
