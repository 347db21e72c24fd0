package process

import (
	"context"
	"errors"
	"testing"
)

// A parent that lives is waited for until the context ends.
func TestWaitParentOfAChild(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := WaitParent(ctx); !errors.Is(err, cause) {
		t.Errorf("WaitParent with a live parent: %v, want %v", err, cause)
	}
}
