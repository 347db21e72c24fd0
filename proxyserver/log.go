package proxyserver

import (
	"context"
	"log/slog"
	"time"

	"github.com/leasectl/leasectl/pool"
)

// logChanges writes a line for every grant and every end of a lease that became
// durable.
func (s *Server) logChanges(changes []pool.Change) {
	if !s.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	for _, c := range changes {
		switch c.Kind {
		case pool.Granted:
			s.logGrant(c)
		case pool.Delayed:
			s.logLease("release delayed", c.Lease, slog.Duration("delay", round(s.clock.until(c.Lease.ReleaseAt))))
		case pool.Broken:
			s.logBroken(c.Lease)
		case pool.Done:
			s.logEnd(c)
		}
	}
}

func (s *Server) logGrant(c pool.Change) {
	names := make([]string, len(c.Leases))
	generations := make([]uint64, len(c.Leases))
	for i, l := range c.Leases {
		names[i], generations[i] = l.Name, l.Generation
	}
	l := c.Leases[0]
	token, owner := splitHolder(l.Owner)
	s.log.LogAttrs(context.Background(), slog.LevelInfo, "granted",
		slog.String("owner", owner), slogToken(token), slog.String("type", l.Type),
		slog.Any("names", names), slog.Any("generations", generations),
		slog.String("request_id", l.RequestID), slog.Duration("waited", round(c.Took)))
}

func (s *Server) logEnd(c pool.Change) {
	held := slog.Duration("held", round(c.Took))
	if c.Reason.Broken() {
		s.logLease("broken", c.Lease, held, slog.String("reason", c.Lease.Broken))
		return
	}
	s.logLease(string(c.Reason), c.Lease, held)
}

func (s *Server) logLease(what string, l pool.Lease, attrs ...slog.Attr) {
	token, owner := splitHolder(l.Owner)
	attrs = append([]slog.Attr{
		slog.String("owner", owner), slogToken(token), slog.String("type", l.Type),
		slog.Any("names", []string{l.Name}), slog.Any("generations", []uint64{l.Generation}),
		slog.String("request_id", l.RequestID),
	}, attrs...)
	s.log.LogAttrs(context.Background(), slog.LevelInfo, what, attrs...)
}

// slogToken is left out by handlers if no token was used.
func slogToken(name string) slog.Attr {
	if name == "" {
		return slog.Attr{}
	}
	return slog.String("token", name)
}

// round leaves of a duration what people read.
func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
