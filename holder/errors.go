package holder

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// Errors to compare with [errors.Is], beside those of proxyclient.
var (
	// ErrInvalid: what the caller asked for cannot be meant. Nothing was done.
	ErrInvalid = errors.New("invalid")
	// ErrHeld: the handle holds, waits for or owes a lease already.
	ErrHeld = errors.New("the handle is taken")
	// ErrSuperseded: another process released or re-acquired the handle
	// while this one was waiting.
	ErrSuperseded = errors.New("released by another process while waiting")
	// ErrCallerGone: the process that ran a delayed release was killed.
	ErrCallerGone = errors.New("cancelled: the process that ran the release is gone")
)

// invalidError is an error in what was asked for, in its own words.
type invalidError struct{ err error }

func (e invalidError) Error() string        { return e.err.Error() }
func (e invalidError) Unwrap() error        { return e.err }
func (e invalidError) Is(target error) bool { return target == ErrInvalid }

func invalidf(format string, args ...any) error { return invalidError{fmt.Errorf(format, args...)} }

// Denied tells whether an acquire failed with err for want of a lease, so that a
// caller to whom the lease is optional may go on without one. A wrong request is no
// such failure, nor is one that another process or request, or the end of ctx, decided.
func Denied(ctx context.Context, err error) bool {
	for _, decided := range []error{ErrInvalid, ErrHeld, ErrSuperseded, proxyclient.ErrCoalesced, proxyclient.ErrSuperseded} {
		if errors.Is(err, decided) {
			return false
		}
	}
	return ctx.Err() == nil
}

// Describe says what failed, and what to do next where that does not depend on
// the command.
func Describe(err error) string {
	var exhausted *proxyclient.ExhaustedError
	var forgotten *proxyclient.UnconfirmedReleaseError
	var unknown *proxyclient.UnknownTypeError
	var unreachable *proxyclient.UnreachableError
	var older *proxyclient.OlderError
	switch {
	case errors.As(err, &forgotten):
		return err.Error() // which says what to do
	case errors.Is(err, proxyclient.ErrUnconfirmed):
		return err.Error() + ": leasectl recover gives it back, or lists it if the proxy cannot say"
	case errors.As(err, &exhausted):
		return describeExhausted(exhausted, time.Now())
	case errors.As(err, &unknown) && unknown.Capabilities.RequestIDs(): // version 1 has no list
		return err.Error() + ": leasectl status lists the types that the proxy has"
	case errors.As(err, &older):
		return err.Error() + ": go without it, or " + renewal(older.Proxy)
	case errors.Is(err, proxyclient.ErrNoToken):
		return err.Error() + ": name the file with it with --token-file"
	case aboutCertificate(err) != "":
		return err.Error() + aboutCertificate(err)
	case errors.As(err, &unreachable) && unreachable.Refused:
		return err.Error() + ": is it running, and is --proxy right?"
	case errors.As(err, &unreachable) && !unreachable.Errors:
		return err.Error() + ": it may be overloaded, or --proxy may be something else's address"
	}
	return err.Error()
}

// describeExhausted says what the queue was like at the end of a wait, as far as
// the proxy said; and to a request that did not wait, when to try again.
func describeExhausted(e *proxyclient.ExhaustedError, now time.Time) string {
	if e.Wait <= 0 {
		return describeRefusal(e, now)
	}
	text := fmt.Sprintf("no lease of type %q within %s", e.Type, leaseapi.Duration(e.Wait))
	if e.Last != nil {
		text = inBrackets(text, DescribeQueue(*e.Last, now, now))
	}
	return text + ": try again later, or raise --wait-timeout"
}

func describeRefusal(e *proxyclient.ExhaustedError, now time.Time) string {
	text, when := fmt.Sprintf("no lease of type %q is free", e.Type), "later"
	if q := e.Last; q != nil {
		text = inBrackets(text, leaseapi.Printable(strings.Join(placeWords(*q, now, now), ", ")))
		if q.EstimateMax > 0 {
			when = "in " + span(time.Duration(q.Estimate), time.Duration(q.EstimateMax))
		}
	}
	return text + ": try again " + when + ", or raise --wait-timeout"
}

// renewal says how a proxy is replaced by a newer one.
func renewal(proxy string) string {
	if strings.HasPrefix(proxy, "unix://") {
		return "start a newer one: that of --proxy local stops when nobody has used it for a while"
	}
	return "update the proxy"
}

// inBrackets adds a note to text, if there is one.
func inBrackets(text, note string) string {
	if note == "" {
		return text
	}
	return text + " (" + note + ")"
}

// aboutCertificate says what to do about a certificate that is not trusted; ""
// if err is about something else.
func aboutCertificate(err error) string {
	if _, names := errors.AsType[x509.HostnameError](err); names {
		return ": use a name of the certificate in --proxy"
	}
	if _, authority := errors.AsType[x509.UnknownAuthorityError](err); authority {
		return ": name the file with the certificate of its authority with --ca"
	}
	return ""
}
