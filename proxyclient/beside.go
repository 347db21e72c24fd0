package proxyclient

import "context"

// watch runs something beside an attempt.
type watch struct {
	stop  context.CancelFunc // nil: there is no attempt
	ended chan struct{}      // closed when what ran beside it has returned
}

// begin runs beside until end is called, or ctx ends.
func (w *watch) begin(ctx context.Context, beside func(context.Context)) {
	w.end()
	ctx, w.stop = context.WithCancel(ctx)
	ended := make(chan struct{})
	w.ended = ended
	go func() {
		defer close(ended)
		beside(ctx)
	}()
}

// end follows the attempt, and waits for what ran beside it.
func (w *watch) end() {
	if w.stop == nil {
		return
	}
	w.stop()
	<-w.ended
	w.stop = nil
}
