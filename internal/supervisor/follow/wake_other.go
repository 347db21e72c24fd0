//go:build !linux

package follow

import "context"

// waker makes Find look at a log now and then.
type waker struct{}

func newWaker(string) waker { return waker{} }

func (waker) arm()                     {}
func (waker) wait(ctx context.Context) { pause(ctx, pollEvery) }
func (waker) close()                   {}
