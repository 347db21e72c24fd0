package proxyclient

import (
	"encoding/json"

	"github.com/leasectl/leasectl/leaseapi"
)

// prepareJSON builds the tables that encoding/json builds of a type when it meets it
// first: of the answer to an acquire, of the release at the end, and of its answer. They
// take a tenth of a millisecond, and a microsecond the next time.
func prepareJSON() {
	growStack(0)
	// No error is of interest: it would be that of the real text, later.
	_ = json.Unmarshal([]byte(`{"leases":[{}]}`), new(leaseapi.AcquireReply))
	_, _ = json.Marshal(leaseapi.ReleaseRequest{})
	_ = json.Unmarshal([]byte("{}"), new(leaseapi.ReleaseReply))
}

// growStack makes the stack of its goroutine as large as the tables need, at once. Each
// time that it grows on the way, the runtime walks all frames, for which it reads the
// tables of their functions: 0.2 MB of the program that nothing else reads.
//
//go:noinline
func growStack(i int) byte {
	var room [12 << 10]byte
	return room[i]
}
