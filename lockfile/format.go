package lockfile

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasectl/leasectl/leaseapi"
)

// format is the format of every file. The package comment says when it grows.
const format = 1

// ErrNewer is the error for a file whose format is greater than the one that
// this program knows.
var ErrNewer = errors.New("written by a newer leasectl")

// errNoFormat is the error for JSON without a format.
var errNoFormat = errors.New("no leasectl wrote it: it has no format")

// unmarshal decodes the data of a file into v, if it is of this format.
func unmarshal(data []byte, v any) error {
	if err := checkFormat(data); err != nil {
		return err
	}
	if err := leaseapi.CheckLists(data); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// checkFormat returns nil if data is JSON of this format, and [ErrNewer] if it is of a newer one. It
// looks at no other field, since a newer format may have changed all others.
func checkFormat(data []byte) error {
	var file struct {
		Format int `json:"format"`
	}
	switch err := json.Unmarshal(data, &file); {
	case err != nil:
		return err
	case file.Format > format:
		return fmt.Errorf("%w (format %d): use that", ErrNewer, file.Format)
	case file.Format < format:
		return errNoFormat
	}
	return nil
}
