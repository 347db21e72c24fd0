package supervisor

import (
	"os"
	"regexp"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/supervisor/follow"
	"github.com/leasectl/leasectl/trap"
	"github.com/leasectl/leasectl/trap/child"
)

// Reporter tells the user what happens. Like those of a [holder.Reporter] its
// methods do not wait for what they say to be read; Flush does for a moment, so
// that what a command prints comes after it.
type Reporter interface {
	holder.Reporter
	Flush()
}

// Options say what to run, and how to hold its lease.
type Options struct {
	Args                  []string // the command
	Environment           []string
	Stdin, Stdout, Stderr *os.File
	ParentDeath           syscall.Signal // that the command gets if leasectl is killed (Linux); 0: none

	// Request is what each attempt acquires.
	Request      holder.Request
	ReleaseAfter time.Duration // give the lease back that long after it was acquired; zero: at the end
	DryRun       bool          // run the command without asking for a lease
	Optional     bool          // run the command also if no lease is to be had

	Witness Witness // what the account says, for the proxy

	Attempts    int           // how often to run the command, at least 1
	RetryOn     []int         // exit codes of the command after which it is run again
	GracePeriod time.Duration // from TERM to KILL
	WarnOnLost  bool          // a lost lease is said, and does not stop the command

	// Signals is what leasectl hears; Listening is closed when it hears the
	// signals that ask it to end, which also end the context of Run.
	Signals   *trap.Chain
	Listening <-chan struct{}
	Report    Reporter
}

// Witness says how to find out what the account said to the command: throttled, or
// ok. The zero Witness does not.
type Witness struct {
	Log         string         // a file to follow; empty: none
	Throttled   *regexp.Regexp // of its lines; with Log
	ThrottledOn []int          // exit codes of the command that mean it
}

// Check says why Log can never be one, such as a directory; nil if it is a regular file,
// or is not there yet.
func (w Witness) Check() error { return follow.Check(w.Log) }

// asked reports whether there is anything to find out.
func (w Witness) asked() bool { return w.Log != "" || len(w.ThrottledOn) > 0 }

// End is how a run ended.
type End struct {
	Status child.Status // of the command
	// Stopped is the signal that leasectl got and stopped the command for;
	// 0: none.
	Stopped syscall.Signal
	// Lost: the lease was lost and the command was stopped.
	Lost bool
}

func (e End) stopped() bool { return e.Lost || e.Stopped != 0 }

// byItself tells whether the command ended by itself: neither by a signal nor because
// leasectl stopped it.
func (e End) byItself() bool { return !e.stopped() && e.Status.Signal == 0 }

// StopMargin is how long before the end of its lease the command's group must be
// dead: for a late timer, and for clocks that do not run quite alike.
const StopMargin = 2 * time.Second
