package config

import (
	"context"
	"time"
)

// lookEvery is the time between two looks whether files have changed. A look
// reads them: time stamps may lie, and a mounted configuration changes by
// swapping a symlink. It takes microseconds.
const lookEvery = 2 * time.Second

// Watch looks at the sources every few seconds until ctx ends. A value from now
// makes it take all of them up at once, changed or not. It calls report for each
// source that was taken up, with nil, or that could not be, with the reason.
func Watch(ctx context.Context, sources []*Source, now <-chan struct{}, report func(source string, err error)) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		must := false
		select {
		case <-ctx.Done():
			return
		case <-now:
			must = true
		case <-ticker.C:
		}
		for _, s := range sources {
			tried, err := s.look(must)
			if ctx.Err() != nil {
				return // the server stops, and has perhaps refused it for that
			}
			if tried {
				report(s.Name, err)
			}
		}
	}
}
