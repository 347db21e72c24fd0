package main

import (
	"context"

	"github.com/leasectl/leasectl/proxyclient"
)

// operate calls do with a client for what operators do, within statusTimeout. In a dry
// run it only says that nothing happens.
func (a *app) operate(ctx context.Context, nothing string, do func(ctx context.Context, client *proxyclient.Client) error) error {
	if a.proxy.unset() {
		a.dryRun("dry run: %s", nothing)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	client, err := a.holder.Dial(ctx, a.proxy.url)
	if err != nil {
		return err
	}
	return do(ctx, client)
}
