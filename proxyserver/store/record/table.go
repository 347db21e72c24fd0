package record

import "encoding/json"

// Table is where records are written.
type Table interface {
	// Put writes a record, and replaces an earlier one with the same key. The caller must
	// not change key or payload afterwards.
	Put(key, payload []byte) error
	// Delete deletes the record under key, if there is one.
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

// recordKey returns the key of the record of this kind and name.
func recordKey(kind byte, name string) []byte { return append([]byte{kind}, name...) }
