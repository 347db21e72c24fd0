package holder

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	v1 "github.com/leasectl/leasectl/internal/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

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
	case errors.Is(err, proxyclient.ErrVersion1):
		return ": go without it, or ask the operator for leasectl's own server"
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

// describeExhausted describes the queue at the end of a wait, as far as the proxy said. To a
// request that did not wait it says when to try again.
func describeExhausted(e *proxyclient.ExhaustedError, now time.Time) string {
	switch {
	case e.Refused != "":
		return e.Error() + ": try again later, or raise --wait-timeout"
	case e.Wait <= 0:
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

// DescribeQueue says where a request stands in its queue: its place, why it waits, who holds
// longest, and how long the wait may take. at is when the proxy sent q. The text is "" if q
// says nothing.
func DescribeQueue(q leaseapi.Queued, at, now time.Time) string {
	return leaseapi.Printable(strings.Join(append(placeWords(q, at, now), estimate(q, now.Sub(at))...), ", "))
}

// placeWords is DescribeQueue without the estimate.
func placeWords(q leaseapi.Queued, at, now time.Time) (words []string) {
	if q.Place > 0 {
		words = append(words, fmt.Sprintf("place %d of %d", q.Place, q.Length))
	}
	switch {
	case q.Reason.Kind == leaseapi.WaitJoined:
		words = append(words, "joined the run of request "+q.Follows)
	case q.Follows != "":
		words = append(words, "with request "+q.Follows, q.Reason.String())
	case q.Reason.Kind != "":
		words = append(words, q.Reason.String())
	}
	if order := q.Order.Words(); order != "" {
		words = append(words, order)
	}
	if q.Capacity > 0 {
		words = append(words, fmt.Sprintf("%d of %d in use", q.InUse, q.Capacity))
	}
	if q.Limit > 0 && q.Limit < q.Capacity {
		words = append(words, fmt.Sprintf("limit %d", q.Limit))
	}
	if o := q.Oldest; o != nil {
		words = append(words, "held longest by "+holderOf(o)+" since "+clock(at.Add(-time.Duration(o.Age)), now))
	}
	return words
}

// holderOf names the holder of a lease.
func holderOf(l *leaseapi.PoolLease) string {
	switch {
	case l.Owner != "":
		return l.Owner
	case l.Token != "":
		return "token " + l.Token
	}
	return "somebody without a name" // a version-1 client
}

// clock formats t as a local time of day, with the date if that is not today's.
func clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// estimate says how much is left of the proxy's estimate. It says nothing without an upper
// bound: a proxy that gives none begins its estimate anew with each answer.
func estimate(q leaseapi.Queued, elapsed time.Duration) []string {
	low, high := time.Duration(q.Estimate)-elapsed, time.Duration(q.EstimateMax)-elapsed
	switch {
	case q.EstimateMax <= 0:
		return nil
	case high <= 0:
		return []string{"longer than expected"}
	}
	return []string{span(low, high) + " to go"}
}

// span describes a time between low and high, for people.
func span(low, high time.Duration) string {
	switch {
	case low <= 0:
		return "up to " + roughly(high)
	case roughly(low) == roughly(high):
		return "about " + roughly(high)
	}
	return roughly(low) + " to " + roughly(high)
}

// roughly rounds d up to the precision of an estimate: from 1 s to 5 min, as d grows.
func roughly(d time.Duration) string {
	unit := time.Second
	switch {
	case d > time.Hour:
		unit = 5 * time.Minute
	case d > 2*time.Minute:
		unit = time.Minute
	case d > 20*time.Second:
		unit = 5 * time.Second
	}
	return leaseapi.Duration((d + unit - 1) / unit * unit).String()
}

// inBrackets adds a note to text, if there is one.
func inBrackets(text, note string) string {
	if note == "" {
		return text
	}
	return text + " (" + note + ")"
}
