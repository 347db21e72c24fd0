package replicated

import (
	"slices"
	"testing"
)

// A value that breaks off, or is no bundle, is refused and does no harm.
func FuzzBundle(f *testing.F) {
	b := &bundle{}
	b.add(entry{"lq-0", `{"generation":1}`})
	b.add(entry{"lq-1", `{"generation":2}`})
	b.add(entry{"e", ""})
	f.Add(b.encode())
	f.Add([]byte{0, 1, 0, 0, 0, 'x'})
	f.Fuzz(func(t *testing.T, value []byte) {
		read := func(value []byte) (all []entry, err error) {
			err = eachEntry(value, func(key, payload []byte) error {
				all = append(all, entry{string(key), string(payload)})
				return nil
			})
			return all, err
		}
		entries, err := read(value)
		if err != nil {
			return
		}
		again := &bundle{}
		for _, e := range entries {
			again.add(e)
		}
		if same, err := read(again.encode()); err != nil || !slices.Equal(same, entries) {
			t.Fatalf("%q, and then %q, %v", entries, same, err)
		}
	})
}
