package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/leasectl/leasectl/internal/child"
	"github.com/leasectl/leasectl/internal/holder/usage"
	"github.com/leasectl/leasectl/internal/proxyserver"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/proxyclient"
)

// Exit codes. 64, 69, 74 and 75 are EX_USAGE, EX_UNAVAILABLE, EX_IOERR and EX_TEMPFAIL of
// sysexits.h; 125 to 127 are what env(1) and timeout(1) use.
const (
	exitFailure       = 1
	exitUnknownType   = 2
	exitUsage         = 64
	exitUnreachable   = 69
	exitStore         = 74
	exitNoLease       = 75
	exitLost          = 76
	exitSuperseded    = 77
	exitNotAdmitted   = 77
	exitExecFailure   = 125
	exitNotExecutable = 126
	exitNotFound      = 127
)

// exitTable maps errors to exit codes; the first match counts. [exitStatus] consults it after
// statusError and signalError, which carry a code.
var exitTable = []struct {
	err  error
	code int
}{
	{errUsage, exitUsage},
	{usage.Err, exitUsage},
	{proxyclient.ErrTwoStores, exitUsage},
	{proxyclient.ErrNeverGranted, exitUsage},
	{child.ErrNotFound, exitNotFound},
	{child.ErrNotExecutable, exitNotExecutable},
	{proxyclient.ErrUnknownType, exitUnknownType},
	{proxyclient.ErrUnknownName, exitUnknownType},
	{proxyclient.ErrSuperseded, exitSuperseded},
	{proxyclient.ErrExhausted, exitNoLease},
	{proxyclient.ErrNoRoom, exitNoLease},
	{proxyclient.ErrVersion1, exitUnreachable},
	{proxyclient.ErrUnreachable, exitUnreachable},
	{proxyserver.ErrStore, exitStore},
	{store.ErrOpen, exitStore},
	{store.ErrDamaged, exitStore},
	{store.ErrGone, exitStore},
	{store.ErrLost, exitStore},
	{errExec, exitExecFailure},
}

// exitMeanings explains the codes to users, in ascending order.
var exitMeanings = [][2]string{
	{"0", "done"},
	{"1", "failed"},
	{"2", "the proxy has no such lease type, or no such name (exec: 125)"},
	{"64", "wrong usage: the message names the flag, the value and what is allowed"},
	{"69", "the proxy does not answer (for 30 s, a minute if something accepts its connections, or the wait timeout if that is shorter), or is of version 1, which would ignore what was asked: nothing was sent"},
	{"74", "serve: the store failed, or cannot be opened (full disk, I/O error; damaged, removed, replaced, in use, of a newer format, as it was before some commits)"},
	{"75", "no lease within --wait-timeout; resize: not enough units are free"},
	{"76", "exec: the lease was lost, the command was stopped"},
	{"77", "exec: superseded by a newer run of its key (--coalesce latest); whoami: the proxy does not let us in"},
	{"125", "exec: any other failure of its own"},
	{"126, 127", "exec: the command cannot be executed, was not found"},
	{"128+n", "signal n ended it; exec: or the command"},
	{"others", "exec: the command's own"},
}

// exitStatus returns the exit code of a command that ended with err.
func exitStatus(err error) int {
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[statusError](err); ok {
		return status.code
	}
	if sig, ok := errors.AsType[signalError](err); ok {
		return 128 + int(sig.Signal)
	}
	for _, row := range exitTable {
		switch {
		case !errors.Is(err, row.err):
		case row.code == exitUnknownType && errors.Is(err, errExec):
			return exitExecFailure // of commands such as diff and terraform plan 2 is the answer
		default:
			return row.code
		}
	}
	return exitFailure
}

var (
	errUsage = errors.New("usage")
	// errExec matches every [execError]. It is last in exitTable, after the more specific errors.
	errExec = errors.New("exec")
)

// usageError is an error in what was typed.
type usageError struct{ err error }

func (e usageError) Error() string        { return e.err.Error() }
func (e usageError) Unwrap() error        { return e.err }
func (e usageError) Is(target error) bool { return target == errUsage }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// statusError carries an exit code, such as a child's or the one that the user asked for. With a
// nil err nothing is printed.
type statusError struct {
	code int
	err  error
}

func (e statusError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}
func (e statusError) Unwrap() error { return e.err }

// signalError says that a signal ended the command.
type signalError struct{ syscall.Signal }

func (e signalError) Error() string { return "ended by signal: " + e.Signal.String() }

// signalled returns err. If err says only that ctx was cancelled, signalled adds the signal that
// cancelled it.
func signalled(ctx context.Context, err error) error {
	_, said := errors.AsType[signalError](err)
	sig, did := errors.AsType[signalError](context.Cause(ctx))
	if errors.Is(err, context.Canceled) && did && !said {
		return fmt.Errorf("%w: %w", sig, err)
	}
	return err
}

// dieOf asks run to end the program by a signal instead of an exit code, so that the shell sees
// the same as without leasectl. The shell reports such an end as 128+n, too.
type dieOf struct {
	sig   syscall.Signal
	group bool // send sig to our process group, too
}

func (e dieOf) Error() string { return "" }

// deathOf tells whether the program must end by a signal: if a key of the terminal ended exec's
// command, or leasectl itself. From an exit code of 130 bash would conclude that the program
// handled the key, and go on with its script.
func deathOf(err error) (d dieOf, dies bool) {
	if d, ok := errors.AsType[dieOf](err); ok {
		return d, true
	}
	sig, ok := errors.AsType[signalError](err)
	return dieOf{sig: sig.Signal}, ok && isKeyHere(sig.Signal)
}

// isKey tells whether a key of a terminal (^C or ^\) sends sig.
func isKey(sig syscall.Signal) bool { return sig == syscall.SIGINT || sig == syscall.SIGQUIT }

// isKeyHere tells whether a key sends sig, and we have a controlling terminal.
func isKeyHere(sig syscall.Signal) bool { return isKey(sig) && child.OnTerminal() }
