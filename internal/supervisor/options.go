package supervisor

import (
	"os"
	"regexp"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/internal/child"
	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/shared"
	"github.com/leasectl/leasectl/internal/supervisor/follow"
	"github.com/leasectl/leasectl/trap"
)

// Reporter tells the user what happens. Its methods, like those of a [holder.Reporter], do not
// wait until their message is read. Only Flush waits for a moment, so that the command's output
// comes after the messages.
type Reporter interface {
	holder.Reporter
	Flush()
}

// Options say what to run, and how to hold its lease.
type Options struct {
	Args                  []string // the command
	Environment           []string // that the command gets, beside the variables about its lease; nil is an empty one
	Stdin, Stdout, Stderr *os.File
	ParentDeath           syscall.Signal // sent to the command if leasectl is killed (Linux); 0: none

	// Request is the acquire of each attempt.
	Request holder.Request
	// Shared says how to share the lease; nil: it is this run's alone.
	Shared       *shared.Options
	ReleaseAfter time.Duration // give the lease back this long after its acquire; zero: at the end
	DryRun       bool          // run the command without asking for a lease
	Optional     bool          // run the command even without a lease

	Witness Witness // what the account says, for the proxy

	Attempts    int           // how often to run the command, at least 1
	RetryOn     []int         // exit codes of the command after which it is run again
	GracePeriod time.Duration // from TERM to KILL
	WarnOnLost  bool          // report a lost lease, but do not stop the command

	// Signals is the chain that hears the signals that ask leasectl to end, which also end the context of Run.
	Signals *trap.Chain
	Report  Reporter
}

// Witness says how to find out what the account said to the command: throttled, or ok. The zero
// Witness finds out nothing.
type Witness struct {
	Log         string         // a file to follow; empty: none
	Throttled   *regexp.Regexp // matches a line of Log that says throttled
	ThrottledOn []int          // exit codes of the command that mean throttled
}

// Check returns why Log can never be a log, such as a directory; nil if Log is a regular file,
// or does not exist yet.
func (w Witness) Check() error { return follow.Check(w.Log) }

// asked reports whether there is anything to find out.
func (w Witness) asked() bool { return w.Log != "" || len(w.ThrottledOn) > 0 }

// End is how a run ended.
type End struct {
	Status child.Status // of the command
	// Stopped is the signal for which leasectl stopped the command; 0: none.
	Stopped syscall.Signal
	// Lost says that leasectl stopped the command because the lease was lost.
	Lost bool
}

func (e End) stopped() bool { return e.Lost || e.Stopped != 0 }

// byItself tells whether the command ended by itself: neither by a signal nor because
// leasectl stopped it.
func (e End) byItself() bool { return !e.stopped() && e.Status.Signal == 0 }

// StopMargin is how long before the end of its lease the command's group must be dead. It
// allows for a late timer, and for clocks that do not run quite alike.
const StopMargin = 2 * time.Second
