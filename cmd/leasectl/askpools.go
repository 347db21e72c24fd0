package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

const (
	// statusTimeout bounds a call for which somebody waits at a terminal, including the start
	// of a local proxy.
	statusTimeout = 10 * time.Second
	// poolsTimeout bounds the request for the pools itself. A proxy answers in milliseconds,
	// and the user wants to know soon that no proxy answers.
	poolsTimeout = 3 * time.Second
)

// askPools asks for the pool of type typ with its names, or for all pools if typ is "", and for the leader. An
// unknown type is a [proxyclient.UnknownTypeError].
func (a *app) askPools(ctx context.Context, proxy, typ string) (leaseapi.PoolsReply, error) {
	client, err := a.holder.Dial(ctx, proxy)
	if err != nil {
		return leaseapi.PoolsReply{}, err
	}
	limit := poolsTimeout
	if client.Servers() > 1 {
		limit = statusTimeout // one of the servers may be down, and its machine silent
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	all, err := client.Overview(ctx, typ)
	if err != nil && !errors.Is(err, proxyclient.ErrUnreachable) { // which names the proxy itself
		return all, fmt.Errorf("%s: %w", proxy, err)
	}
	return all, err
}
