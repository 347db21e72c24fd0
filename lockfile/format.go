package lockfile

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Numbers of formats. The package comment says when they grow.
const (
	// plainFormat is that of journal entries, and of records whose names file an
	// older program understands.
	plainFormat = 1
	// format is the newest one that this program knows: that of records whose names
	// file holds owed names. An older program would take these names for a bare
	// handle, and release them without their generations.
	format = 2
)

// ErrNewer is the error for a file whose format is greater than the one that
// this program knows.
var ErrNewer = errors.New("written by a newer leasectl")

// unmarshal reads a file into v, with its format in *number, or returns [ErrNewer].
func unmarshal(data []byte, v any, number *int) error {
	err := json.Unmarshal(data, v)
	if err == nil && *number <= format {
		return nil
	}
	return errors.Join(checkFormat(data), err)
}

// checkFormat returns [ErrNewer] if data is JSON of a newer format. It looks at
// nothing else, since a newer format may have changed every other field; whether
// data is valid is for its caller to find out.
func checkFormat(data []byte) error {
	var file struct {
		Format int `json:"format"`
	}
	if json.Unmarshal(data, &file) == nil && file.Format > format {
		return fmt.Errorf("%w (format %d): use that", ErrNewer, file.Format)
	}
	return nil
}
