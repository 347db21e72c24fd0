package holder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/leasectl/leasectl/lockfile"
)

// journal holds the entries of this process. What a command is about to do at
// the proxy stands in the journal first, and goes when it is done or known not
// to have happened. The entry of a dead process is for the next run to settle,
// or for recover.
//
// The entries stand here, and not with what they are about, because each is
// held until that is settled, however many functions have returned until then.
type journal struct {
	stateDir string

	mu      sync.Mutex
	entries map[string]*lockfile.Entry // by id
}

func (j *journal) file() lockfile.Journal {
	return lockfile.Journal(filepath.Join(j.stateDir, "intents"))
}

// begin writes an intent down and holds it.
func (j *journal) begin(ctx context.Context, in lockfile.Intent) error {
	in.PID, in.Begun = os.Getpid(), time.Now().UTC().Round(time.Millisecond)
	if err := lockfile.MakeDir(j.stateDir); err != nil {
		return fmt.Errorf("%w (it is for the journal; $LEASECTL_STATE_DIR names another)", err)
	}
	entry, err := j.file().Begin(ctx, in)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.entries == nil {
		j.entries = make(map[string]*lockfile.Entry)
	}
	j.entries[in.ID] = entry
	return nil
}

// settle removes an entry: nothing is left to do. An id that is none of ours is
// fine. An entry that cannot be removed does no harm: to settle it again finds
// nothing to do.
func (j *journal) settle(id string) {
	if e := j.remove(id); e != nil {
		e.Settle()
	}
}

// leave gives an entry up for others to settle.
func (j *journal) leave(id string) {
	if e := j.remove(id); e != nil {
		e.Leave()
	}
}

func (j *journal) remove(id string) *lockfile.Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.entries[id]
	delete(j.entries, id)
	return e
}

// covers tells whether open entries of this process are about all that is owed.
func (j *journal) covers(owed ...lockfile.Owed) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, o := range owed {
		if j.entries[o.RequestID] == nil {
			return false
		}
	}
	return true
}
