package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

const (
	// statusTimeout bounds what somebody waits for at a terminal, the start of
	// a local proxy included.
	statusTimeout = 10 * time.Second
	// poolsTimeout bounds the question for the pools itself: a proxy answers it
	// in milliseconds, and who asks wants to know soon that there is none.
	poolsTimeout = 3 * time.Second
)

// askPoolsOf asks for the pool of a type, or for all if that is "".
func (a *app) askPoolsOf(ctx context.Context, proxy, typ string) ([]leaseapi.Pool, error) {
	pools, err := a.askPools(ctx, proxy)
	if err != nil || typ == "" {
		return pools, err
	}
	of := slices.DeleteFunc(slices.Clone(pools), func(p leaseapi.Pool) bool { return p.Type != typ })
	if len(of) == 0 {
		return nil, fmt.Errorf("%s: %w %q", proxy, proxyclient.ErrUnknownType, typ)
	}
	return of, nil
}

func (a *app) askPools(ctx context.Context, proxy string) ([]leaseapi.Pool, error) {
	client, err := a.holder.Dial(ctx, proxy)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, poolsTimeout)
	defer cancel()
	pools, err := client.Pools(ctx)
	if err != nil && !errors.Is(err, proxyclient.ErrUnreachable) { // which names it
		return nil, fmt.Errorf("%s: %w", proxy, err)
	}
	return pools, err
}
