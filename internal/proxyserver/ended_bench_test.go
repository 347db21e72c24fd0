package proxyserver

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/bolt"
)

// BenchmarkEndedStore measures the bytes of each ended id in a store, and the time of a
// start, with as many ended ids as can be.
func BenchmarkEndedStore(b *testing.B) {
	dir := b.TempDir()
	st := openStore(b, dir)
	const together = 10_000
	for n := 0; n < pool.MaxEnded; n += together {
		changes := make([]pool.Change, together)
		for i := range changes {
			changes[i] = pool.Change{Kind: pool.Remembered, Ended: pool.Ended{ID: fmt.Sprintf("%032d", n+i), Until: time.Hour + time.Duration(n+i)}}
		}
		if err := st.Commit(store.Batch{Changes: changes}); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, bolt.File))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := New(durable(b, dir, 1))
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(info.Size())/pool.MaxEnded, "B/id")
}
