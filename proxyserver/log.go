package proxyserver

import (
	"context"
	"log/slog"

	"github.com/leasectl/leasectl/pool"
)

// changeLog writes what the pools did to the log.
type changeLog struct {
	*slog.Logger
	clock clock
}

// changes writes a line for every grant and every end of a lease that became
// durable.
func (l changeLog) changes(changes []pool.Change) {
	if !l.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	for _, c := range changes {
		switch c.Kind {
		case pool.Granted:
			l.grant(c)
		case pool.Delayed:
			l.lease("release delayed", c.Lease, slog.Duration("delay", round(l.clock.until(c.Lease.ReleaseAt))))
		case pool.Broken:
			l.lease("breaking", c.Lease, slog.String("reason", c.Lease.Broken), slog.Duration("ends_in", round(l.clock.until(c.Lease.Ends()))))
		case pool.Done:
			l.end(c)
		}
	}
}

func (l changeLog) grant(c pool.Change) {
	names := make([]string, len(c.Leases))
	generations := make([]uint64, len(c.Leases))
	for i, granted := range c.Leases {
		names[i], generations[i] = granted.Name, granted.Generation
	}
	first := c.Leases[0]
	token, owner := splitHolder(first.Owner)
	l.LogAttrs(context.Background(), slog.LevelInfo, "granted",
		slog.String("owner", owner), slogToken(token), slog.String("type", first.Type),
		slog.Any("names", names), slog.Any("generations", generations),
		slog.String("request_id", first.RequestID), slog.Duration("waited", round(c.Took)))
}

func (l changeLog) end(c pool.Change) {
	held := slog.Duration("held", round(c.Took))
	if c.Reason.Broken() {
		l.lease("broken", c.Lease, held, slog.String("reason", c.Lease.Broken))
		return
	}
	l.lease(string(c.Reason), c.Lease, held)
}

func (l changeLog) lease(what string, lease pool.Lease, attrs ...slog.Attr) {
	token, owner := splitHolder(lease.Owner)
	attrs = append([]slog.Attr{
		slog.String("owner", owner), slogToken(token), slog.String("type", lease.Type),
		slog.Any("names", []string{lease.Name}), slog.Any("generations", []uint64{lease.Generation}),
		slog.String("request_id", lease.RequestID),
	}, attrs...)
	l.LogAttrs(context.Background(), slog.LevelInfo, what, attrs...)
}

// slogToken is left out by handlers if no token was used.
func slogToken(name string) slog.Attr {
	if name == "" {
		return slog.Attr{}
	}
	return slog.String("token", name)
}
