package lockfile

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Numbers of formats. The package comment says when they grow.
const (
	// plainFormat is the format of all files but some records.
	plainFormat = 1
	// owedFormat is that of records whose names file has the names that they owe. A program of
	// format 1 would take these for a bare handle.
	owedFormat = 2
	// format is the newest format that this program knows: that of records which release their own
	// leases, wait in the place of others, or have generations of an adapter, and of shared leases
	// with a service. An older program would drop all of these but the generations, and send those
	// to a proxy that does not know them.
	format = 3
)

// ErrNewer is the error for a file whose format is greater than the one that
// this program knows.
var ErrNewer = errors.New("written by a newer leasectl")

// unmarshal decodes the data of a file into v, of which number points to the format. It returns
// [ErrNewer] if a newer program wrote the file.
func unmarshal(data []byte, v any, number *int) error {
	err := json.Unmarshal(data, v)
	if err == nil && *number <= format {
		return nil
	}
	return errors.Join(checkFormat(data), err)
}

// checkFormat returns [ErrNewer] if data is JSON of a newer format. It looks at no other field,
// since a newer format may have changed all others. The caller finds out whether data is valid.
func checkFormat(data []byte) error {
	var file struct {
		Format int `json:"format"`
	}
	if json.Unmarshal(data, &file) == nil && file.Format > format {
		return fmt.Errorf("%w (format %d): use that", ErrNewer, file.Format)
	}
	return nil
}
