package proxyclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasectl/leasectl/leaseapi"
)

// Whoami returns how the proxy knows the caller. The error is [ErrNoToken] or [ErrRefused] if the
// proxy does not let the caller in, and [errors.ErrUnsupported] if the proxy cannot say.
func (c *Client) Whoami(ctx context.Context) (leaseapi.WhoamiReply, error) {
	var reply leaseapi.WhoamiReply
	if _, err := c.get(ctx, leaseapi.PathWhoami, &reply, &patience{limits: usualLimits}); err != nil {
		return leaseapi.WhoamiReply{}, fmt.Errorf("whoami: %w", err)
	}
	known := callerOf(reply.Name, reply.Issuer)
	reply.Name, reply.Issuer = known.Name, known.Issuer
	makePrintable(&reply.Role)
	for i := range reply.Pools {
		makePrintable(&reply.Pools[i])
	}
	return reply, nil
}

// callerOf returns a caller as answers name it, with texts that may be printed and kept.
func callerOf(name, issuer string) leaseapi.Caller {
	makePrintable(&name, &issuer)
	return leaseapi.Caller{Name: leaseapi.Clip(name, leaseapi.MaxOwner), Issuer: leaseapi.Clip(issuer, leaseapi.MaxOwner)}
}

// Caller returns whom the proxy takes the caller for; zero: it asks for no tokens.
func (c *Client) Caller(ctx context.Context) (leaseapi.Caller, error) {
	reply, err := c.Whoami(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return leaseapi.Caller{Name: reply.Name, Issuer: reply.Issuer}, err
}
