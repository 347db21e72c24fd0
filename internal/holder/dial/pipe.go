package dial

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/leasectl/leasectl/proxyclient"
)

const (
	// pipeSilence is how long a wait for a pipe goes unreported: longer than a program takes
	// that writes a token.
	pipeSilence = 3 * time.Second
	// pipeTime is the longest wait for a pipe, counted from its opening. It is as long as that
	// for a proxy that does not answer.
	pipeTime = 30 * time.Second
)

// pipes reads the files of a run that may be pipes, such as --token-file <(…). A pipe can
// be read only once, so its text is kept.
type pipes struct {
	notef func(format string, args ...any) // tells the user of a wait

	mu     sync.Mutex
	opened map[string]*pipe // by path
}

// pipe is a pipe that is read. If a caller stops waiting, the reading goes on for the next
// caller: a second reader would find nothing.
type pipe struct {
	opened time.Time
	say    sync.Once     // tells the user of the wait
	read   chan struct{} // closed when text and err are set
	text   []byte
	err    error
}

// readFile is [proxyclient.ReadFile]. It waits for a pipe until ctx ends, and for pipeTime at most:
// perhaps nobody ever writes it.
func (ps *pipes) readFile(ctx context.Context, path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() || info.IsDir() {
		return proxyclient.ReadFile(path, most)
	}
	p := ps.open(path, most)
	select {
	case <-p.read: // even if pipeTime is over
		return p.text, p.err
	default:
	}
	unwritten := fmt.Errorf("%s is a pipe, and nobody has written and closed it yet", path)
	ctx, cancel := context.WithDeadline(ctx, p.opened.Add(pipeTime))
	defer cancel()
	defer time.AfterFunc(time.Until(p.opened.Add(pipeSilence)), func() {
		p.say.Do(func() { ps.notef("%v: waiting for it", unwritten) })
	}).Stop()
	select {
	case <-p.read:
		return p.text, p.err
	case <-ctx.Done():
	}
	if cause := context.Cause(ctx); cause != context.DeadlineExceeded {
		return nil, fmt.Errorf("%w (%w)", unwritten, cause)
	}
	return nil, unwritten
}

// open returns the pipe at path. The first call begins to read the pipe. The reading lasts
// until the writer has closed it or has written more than most bytes, or the program ends.
func (ps *pipes) open(path string, most int64) *pipe {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.opened[path]
	if p == nil {
		p = &pipe{opened: time.Now(), read: make(chan struct{})}
		if ps.opened == nil {
			ps.opened = make(map[string]*pipe)
		}
		ps.opened[path] = p
		go func() {
			defer close(p.read)
			p.text, p.err = proxyclient.ReadFile(path, most)
		}()
	}
	return p
}
