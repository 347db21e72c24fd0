package proxyserver

import (
	"crypto/x509"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// A certificate that expires soon is in the log once for each stage, and in /readyz and the
// metrics until it is replaced.
func TestCertificateExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		var log logText
		now := time.Now()
		leaf := &x509.Certificate{NotBefore: now, NotAfter: now.Add(90 * day)}
		p := start(t, Options{
			Pools: []pool.Config{quota(1)}, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Leaf: func() *x509.Certificate { return leaf },
		})
		lines := func() int { synctest.Wait(); return strings.Count(log.String(), "certificate: it expire") }
		ready := func() string {
			r := decode[leaseapi.Ready](t, p.do("GET", leaseapi.PathReady, ""), 200)
			return r.Status + strings.Join(r.Warnings, ",")
		}
		for _, c := range []struct {
			day   time.Duration
			lines int
			ready string
		}{
			{1, 0, "ok"},
			{59, 0, "ok"},
			{61, 1, "degradedcertificate: it expires in 696h, on 2000-03-31T00:00:00Z"},
			{70, 1, "degradedcertificate: it expires in 480h, on 2000-03-31T00:00:00Z"},
			{84, 2, "degradedcertificate: it expires in 144h, on 2000-03-31T00:00:00Z"},
			{91, 3, "degradedcertificate: it expired on 2000-03-31T00:00:00Z: clients refuse it"},
		} {
			time.Sleep(time.Until(now.Add(c.day * day)))
			if n, is := lines(), ready(); n != c.lines || is != c.ready {
				t.Errorf("day %d: %d lines, %s, want %d, %s", c.day, n, is, c.lines, c.ready)
			}
		}
		if v := p.metrics()["leasectl_certificate_expiry_seconds"].samples["leasectl_certificate_expiry_seconds"]; v != float64(leaf.NotAfter.Unix()) {
			t.Errorf("it expires at %v", v)
		}
		leaf = &x509.Certificate{NotBefore: time.Now(), NotAfter: time.Now().Add(day)} // lives for a day, and is renewed by a machine
		if is := ready(); is != "ok" {
			t.Errorf("a new one: %s", is)
		}
	})
}

// The metrics that dashboards expect of every Go program are there, with plausible values.
func TestProcessMetrics(t *testing.T) {
	f := start(t, Options{Pools: []pool.Config{quota(1)}}).metrics()
	for name, least := range map[string]float64{
		"go_goroutines": 3, "go_memstats_heap_alloc_bytes": 1e4, "go_memstats_sys_bytes": 1e6, "process_resident_memory_bytes": 1e6,
		"process_open_fds": 3, "process_max_fds": 16, "process_cpu_seconds_total": 0, "process_start_time_seconds": 1.7e9, "go_gc_cycles_total": 0,
		"go_sched_gomaxprocs_threads": 1,
	} {
		if v, ok := f[name].samples[name]; !ok || v < least {
			t.Errorf("%s is %v, %v", name, v, ok)
		}
	}
}
