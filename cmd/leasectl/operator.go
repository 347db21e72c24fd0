package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasectl/leasectl/proxyclient"
)

// operate runs a command of operators: it calls do with a client of the proxy, and a context that
// ends after statusTimeout. Without a proxy it is wrong usage; the text nothing says what is not done.
func (a *app) operate(ctx context.Context, nothing string, do func(ctx context.Context, client *proxyclient.Client) error) error {
	if a.proxy.unset() {
		return usagef(noProxy+": %s", nothing)
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	client, err := a.holder.Dial(ctx, a.proxy.url)
	if err != nil {
		return err
	}
	return whereToLook(do(ctx, client))
}

// whereToLook adds to an error about an unknown request or lease where to find the known ones.
func whereToLook(err error) error {
	switch {
	case errors.Is(err, proxyclient.ErrUnknownRequest):
		return fmt.Errorf("%w: leasectl status lists the requests that wait", err)
	case errors.Is(err, proxyclient.ErrNotHeld):
		return fmt.Errorf("%w: leasectl status lists the leases that are held", err)
	}
	return err
}
