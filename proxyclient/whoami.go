package proxyclient

import (
	"context"
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
	makePrintable(&reply.Name, &reply.Issuer, &reply.Role)
	for i := range reply.Pools {
		makePrintable(&reply.Pools[i])
	}
	return reply, nil
}
