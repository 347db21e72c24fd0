package config

import (
	"context"
	"time"
)

// lookEvery is the time between two looks whether files have changed. A look reads the files,
// because time stamps may be wrong, and a mounted configuration changes by swapping a symlink.
// That takes microseconds.
const lookEvery = 2 * time.Second

// Watch looks at the sources every two seconds until ctx ends. After a value from now it
// applies all sources at once, changed or not. It calls report for each source that it applied,
// with nil, and for each that it could not apply, with the error.
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
				return // the server stops, and may have refused the source for that reason
			}
			if tried {
				report(s.Name, err)
			}
		}
	}
}
