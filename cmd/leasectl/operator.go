package main

import (
	"context"

	"github.com/leasectl/leasectl/proxyclient"
)

// dialOperator returns a client for what operators do; nil in a dry run, in which
// nothing happens, or with an error.
func (a *app) dialOperator(ctx context.Context, nothing string) (client *proxyclient.Client, done func(), err error) {
	if a.proxy.unset() {
		a.dryRun("dry run: %s", nothing)
		return nil, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	client, err = a.holder.Dial(ctx, a.proxy.url)
	if err != nil {
		return nil, nil, err
	}
	return client, client.Close, nil
}
