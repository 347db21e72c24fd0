package holder

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/leasectl/leasectl/holder/usage"
	v1 "github.com/leasectl/leasectl/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// Errors to compare with [errors.Is], beside [usage.Err] and those of proxyclient.
var (
	// ErrHeld: the handle holds, waits for or owes a lease already.
	ErrHeld = errors.New("the handle is taken")
	// ErrReplaced: another process released the handle, or acquired into it, while this process
	// was waiting.
	ErrReplaced = errors.New("released by another process while waiting")
	// ErrService: the service that comes with a shared lease did not become ready.
	ErrService = errors.New("no service")
	// ErrCallerGone: the process that ran a delayed release was killed.
	ErrCallerGone = errors.New("cancelled: the process that ran the release is gone")
)

// unreadError says that a handle could not be locked or read. Nothing was done with the handle.
type unreadError struct{ err error }

func (e unreadError) Error() string { return e.err.Error() }
func (e unreadError) Unwrap() error { return e.err }

func isUnread(err error) bool {
	_, unread := errors.AsType[unreadError](err)
	return unread
}

// Denied tells whether an acquire failed with err because it got no lease, so that a caller to
// whom the lease is optional may go on without one. It is false if the request was wrong, if
// another process or request decided it, and if ctx has ended.
func Denied(ctx context.Context, err error) bool {
	for _, decided := range []error{usage.Err, ErrService, ErrHeld, ErrReplaced, proxyclient.ErrCoalesced, proxyclient.ErrSuperseded} {
		if errors.Is(err, decided) {
			return false
		}
	}
	return ctx.Err() == nil
}

// advisedError is an error whose text says what to do next.
type advisedError struct {
	text string
	err  error
}

func (e advisedError) Error() string { return e.text }
func (e advisedError) Unwrap() error { return e.err }

// advise adds to an error what to do next, after the advice that [Describe] would add.
func advise(err error, format string, args ...any) error {
	return advisedError{text: inBrackets(err.Error()+whatNext(err), fmt.Sprintf(format, args...)), err: err}
}

// AdviseForget adds, to an error about a journal entry of a proxy that did not answer, that
// recover --forget id drops the entry. It returns other errors as they are.
func AdviseForget(id string, err error) error {
	if proxyclient.Outage(err) != nil {
		return advise(err, "if that proxy is gone for good, leasectl recover --forget %s drops this", id)
	}
	return err
}

// Describe says what failed, and what to do next if that is the same for every command.
func Describe(err error) string {
	exhausted, ok := errors.AsType[*proxyclient.ExhaustedError](err)
	if ok && !errors.Is(err, proxyclient.ErrUnconfirmed) {
		return describeExhausted(exhausted, time.Now())
	}
	return err.Error() + whatNext(err)
}

// whatNext returns the advice to add to the text of an error; "" if there is none, or the text
// has advice already.
func whatNext(err error) string {
	_, advised := errors.AsType[advisedError](err)
	_, listed := errors.AsType[*v1.UnconfirmedError](err)
	unknown, isUnknown := errors.AsType[*proxyclient.UnknownTypeError](err)
	older, isOlder := errors.AsType[*proxyclient.OlderError](err)
	unreachable, isUnreachable := errors.AsType[*proxyclient.UnreachableError](err)
	named, wrongName := errors.AsType[x509.HostnameError](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, wrongAuthority := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case advised || listed:
		return ""
	case errors.Is(err, proxyclient.ErrUnconfirmed):
		return ": leasectl recover gives it back, or lists it if the proxy cannot say"
	case isUnknown && unknown.Listed: // version 1 has no list
		return ": leasectl status lists the types that the proxy has"
	case isOlder:
		return ": go without it, or " + renewal(older.Proxy)
	case errors.Is(err, proxyclient.ErrNoToken):
		return ": name the file with it with --token-file, or where it comes from with --token-from"
	case errors.Is(err, proxyclient.ErrWantsTLS):
		return ": write https:// in --proxy"
	case errors.Is(err, http.ErrSchemeMismatch):
		return ": it speaks http: write http:// in --proxy"
	case isInvalid && invalid.Reason == x509.Expired:
		return ": ask the operator for a new one, or set the clock of this machine right"
	case wrongName:
		return ": " + nameOf(named)
	case wrongAuthority:
		return ": name the file with the certificate of its authority with --ca"
	case isUnreachable && leaseapi.OneTypo(strings.TrimPrefix(unreachable.Proxy, "http://"), "local"):
		return ": did you mean --proxy local"
	case isUnreachable && unreachable.Refused:
		return ": is it running, and is --proxy right?"
	case isUnreachable && !unreachable.Errors:
		return ": it may be overloaded, or --proxy may be something else's address"
	}
	return ""
}

// describeExhausted describes the queue at the end of a wait, as far as the proxy said. To a
// request that did not wait it says when to try again.
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

// nameOf says for which names a certificate is good. The error itself lists the names, unless
// the address is an IP and the certificate has no IPs.
func nameOf(e x509.HostnameError) string {
	names := strings.Join(e.Certificate.DNSNames, ", ")
	switch {
	case names == "" && len(e.Certificate.IPAddresses) == 0:
		return "the certificate has no name: ask the operator for one that has"
	case net.ParseIP(e.Host) != nil && len(e.Certificate.IPAddresses) == 0:
		return "use a name of the certificate in --proxy: " + leaseapi.Clip(names, leaseapi.MaxName)
	}
	return "use a name of the certificate in --proxy"
}

// renewal says how to replace a proxy by a newer one.
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
