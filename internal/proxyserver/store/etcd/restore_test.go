package etcd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/etcd/etcdtest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated/leadtest"
)

// BenchmarkRestore measures how long the next leader takes for the 300,000 ids that ended in
// an hour, and for comparison how long it takes only to read them.
func BenchmarkRestore(b *testing.B) {
	const ids, commits = 300_000, 3_000
	c := etcdtest.Shared(b)
	e := elector(b, Options{URL: c.URL("restore"), TTL: time.Minute})
	l := leadtest.Gain(b, e, patience)
	leadtest.Load(b, l)
	for i := range commits {
		var batch store.Batch
		for j := range ids / commits {
			ended := pool.Ended{ID: fmt.Sprintf("%026d", i*100+j), Until: time.Hour + time.Duration(i)*time.Millisecond}
			batch.Changes = append(batch.Changes, pool.Change{Kind: pool.Remembered, Ended: ended})
		}
		if err := l.Commit(batch); err != nil {
			b.Fatal(err)
		}
	}
	var reading, restoring time.Duration
	for b.Loop() {
		began := time.Now()
		all := []byte(e.prefix + "/records/")
		from, end := all, rangeEnd(all)
		for more := true; more; {
			var page rangeResponse
			if err := e.call(context.Background(), "/v3/kv/range", rangeRequest{Key: from, RangeEnd: end, Limit: pageSize}, &page); err != nil {
				b.Fatal(err)
			}
			if more = page.More; more {
				from = append(page.KVs[len(page.KVs)-1].Key, 0)
			}
		}
		reading += time.Since(began)
		began = time.Now()
		if snap := leadtest.Load(b, l); len(snap.Ended) != ids {
			b.Fatalf("%d ids", len(snap.Ended))
		}
		restoring += time.Since(began)
	}
	b.ReportMetric(reading.Seconds()/float64(b.N), "s-reading/op")
	b.ReportMetric(restoring.Seconds()/float64(b.N), "s-restoring/op")
	b.ReportMetric(restoring.Seconds()/reading.Seconds(), "ratio")
}
