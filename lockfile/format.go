package lockfile

import (
	"encoding/json"
	"errors"
	"fmt"
)

// format is the number that this program writes into the JSON of handles and
// journal entries. The package comment says when it grows.
const format = 1

// ErrNewer is the error for a file whose format is greater than the one that
// this program knows.
var ErrNewer = errors.New("written by a newer leasectl")

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
