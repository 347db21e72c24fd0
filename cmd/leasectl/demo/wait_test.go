package demo

import (
	"context"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/child"
	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/proxyclient"
)

// A demo that waits in vain fails: for a job that has lost its lease, and for one that does not end.
func TestDemoWaitsInVain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		wait func(*demo)
		want string
	}{
		{func(d *demo) { d.await("granted", "job-1") }, "waited 200ms for job-1 to be granted"},
		{func(d *demo) { d.awaitConfirmed("job-1") }, "waited 200ms for job-1 to confirm its lease"},
		{func(d *demo) { d.finish("job-1") }, "waited 200ms for job-1 to end"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		d := newDemo(ctx, Options{Speed: 1, Print: func(string, ...any) error { return nil }})
		defer d.end()
		d.patience = 200 * time.Millisecond
		err := d.serve([]pool.Config{{Type: "install", Units: 1}})
		if err == nil {
			d.client, err = proxyclient.New(proxyclient.Options{URL: d.url})
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := child.Start(child.Command{Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 60"}, Dir: "/"})
		if err != nil {
			t.Fatal(err)
		}
		d.jobs["job-1"] = &job{Process: p, let: func() {}}
		tt.wait(d)
		if err := context.Cause(d.ctx); err == nil || err.Error() != tt.want {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}
