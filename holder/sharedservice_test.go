package holder

import (
	"strings"
	"testing"

	"github.com/leasectl/leasectl/lockfile"
)

// Two services are the same only if all of their commands is, however long they are.
func TestSameService(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, tt := range []struct {
		name string
		a, b *lockfile.Service
		same bool
	}{
		{"none", nil, nil, true},
		{"one", nil, &lockfile.Service{Command: "a"}, false},
		{"of another user", &lockfile.Service{Command: "a", Timeout: 1, Group: 7}, &lockfile.Service{Command: "a"}, true},
		{"long command", &lockfile.Service{Command: long + "a"}, &lockfile.Service{Command: long + "b"}, false},
		{"long expression", &lockfile.Service{Command: "a", Ready: long + "a"}, &lockfile.Service{Command: "a", Ready: long + "b"}, false},
	} {
		for _, pair := range [][2]*lockfile.Service{{tt.a, tt.b}, {tt.b, tt.a}} {
			l := sharedLease{shown: "A", wanted: lockfile.Round{Service: pair[0]}}
			if err := l.conflict(lockfile.Round{Service: pair[1]}); (err == nil) != tt.same {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
	}
}
