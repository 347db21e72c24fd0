package postgres

import (
	"fmt"
	"testing"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/postgres/pgtest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated/leadtest"
)

// BenchmarkCommit measures commits of eight grants and eight releases, without fsync.
func BenchmarkCommit(b *testing.B) {
	l := leadtest.Gain(b, elector(b, inSchema(pgtest.Shared(b))), patience)
	leadtest.Load(b, l)
	generation := uint64(0)
	var before []string
	for b.Loop() {
		var batch store.Batch
		add := func(c pool.Change) {
			batch.Changes = append(batch.Changes, c)
			batch.Steps = append(batch.Steps, len(batch.Changes))
		}
		for _, name := range before {
			add(leadtest.Done(name))
		}
		before = before[:0]
		for range 8 {
			generation++
			before = append(before, fmt.Sprint("q-", generation))
			add(leadtest.Granted(before[len(before)-1], generation))
		}
		batch.Generation = generation
		if err := l.Commit(batch); err != nil {
			b.Fatal(err)
		}
	}
}
