package record

import "encoding/json"

// Table is where records are written.
type Table interface {
	// Put writes a record in the place of an earlier one with that key. Nobody
	// changes key and payload afterwards.
	Put(key, payload []byte) error
	// Delete deletes the record with that key, if there is one.
	Delete(key []byte) error
}

// putJSON writes a record whose payload is JSON.
func putJSON(t Table, key []byte, record any) error {
	payload, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return t.Put(key, payload)
}

// recordKey is the key of what kind has under name.
func recordKey(kind byte, name string) []byte { return append([]byte{kind}, name...) }
