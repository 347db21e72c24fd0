package proxyclient

import (
	"encoding/json"

	"github.com/leasectl/leasectl/leaseapi"
)

// Prepare builds the tables that encoding/json builds of a type when it meets it first:
// of the answer to an acquire, of a release, and of its answer. They take a tenth of a
// millisecond, so a program that waits for something else calls it meanwhile. Calling
// it again takes a microsecond.
func Prepare() {
	// No error is of interest: it would be that of the real text, later.
	_ = json.Unmarshal([]byte(`{"leases":[{}]}`), new(leaseapi.AcquireReply))
	_, _ = json.Marshal(leaseapi.ReleaseRequest{})
	_ = json.Unmarshal([]byte("{}"), new(leaseapi.ReleaseReply))
}
