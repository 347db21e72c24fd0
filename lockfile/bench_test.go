package lockfile

import (
	"os"
	"testing"
)

// The record changes, the names do not: a renewal, a mark.
func BenchmarkUpdate(b *testing.B) {
	h := handleIn(b)
	ok(b, h.Update(b.Context(), set(held("r", "a"))))
	for i := 0; b.Loop(); i++ {
		ok(b, h.Update(b.Context(), func(tx *Tx) error { tx.KeeperPID = i + 1; return nil }))
	}
}

// The life of a handle: queued, held, removed.
func BenchmarkAcquireRelease(b *testing.B) {
	h := handleIn(b)
	for b.Loop() {
		ok(b, h.Update(b.Context(), set(Record{State: HandleQueued, RequestID: "r"})))
		ok(b, h.Update(b.Context(), set(held("r", "a"))))
		ok(b, h.Update(b.Context(), set(Record{})))
	}
}

// A watcher does this twice a second.
func BenchmarkRead(b *testing.B) {
	h := handleIn(b)
	ok(b, h.Update(b.Context(), set(held("r", "a"))))
	for b.Loop() {
		if _, err := h.Read(); err != nil {
			b.Fatal(err)
		}
	}
}

// The lower bound of the other benchmarks: one file replaced, as plainly as can be.
func BenchmarkFloor(b *testing.B) {
	path := handleIn(b).path
	data := []byte("a\n")
	for b.Loop() {
		ok(b, os.WriteFile(path+".new", data, 0o600))
		ok(b, os.Rename(path+".new", path))
	}
}
