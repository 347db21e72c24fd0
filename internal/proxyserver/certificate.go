package proxyserver

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// The server warns of a certificate that expires soon: first in time for a person to act,
// and again when it is urgent. Certificates that machines renew may live for only a day: for
// them the server warns in the last third of their life, and in the last tenth.
const (
	certificateSoon   = 30 * 24 * time.Hour
	certificateUrgent = 7 * 24 * time.Hour
	// certificateEvery is how often the server checks for the log, which may be an hour
	// late. /readyz always shows the present certificate.
	certificateEvery = time.Hour
)

// certificateStage is how near the end of a certificate is.
type certificateStage int

const (
	certificateGood certificateStage = iota
	certificateEndsSoon
	certificateEndsVerySoon
	certificateOver
)

func stageOf(leaf *x509.Certificate, now time.Time) certificateStage {
	left, life := leaf.NotAfter.Sub(now), leaf.NotAfter.Sub(leaf.NotBefore)
	switch {
	case left <= 0:
		return certificateOver
	case left < min(certificateUrgent, life/10):
		return certificateEndsVerySoon
	case left < min(certificateSoon, life/3):
		return certificateEndsSoon
	}
	return certificateGood
}

// certificate returns the certificate that clients see; nil without TLS.
func (h *handler) certificate() *x509.Certificate {
	if h.leaf == nil {
		return nil
	}
	return h.leaf()
}

// allWarnings returns the warnings of files, of issuers, and of a certificate that expires soon.
func (h *handler) allWarnings() []warning {
	all := append(h.warnings.all(), h.issuerWarnings()...)
	leaf, now := h.certificate(), time.Now()
	if leaf != nil && stageOf(leaf, now) != certificateGood {
		all = append(all, warning{"certificate", certificateText(leaf, now)})
	}
	return all
}

func certificateText(leaf *x509.Certificate, now time.Time) string {
	left := leaf.NotAfter.Sub(now)
	if left <= 0 {
		return fmt.Sprintf("it expired on %s: clients refuse it", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("it expires in %s, on %s", leaseapi.Duration(left.Round(time.Minute)), leaf.NotAfter.UTC().Format(time.RFC3339))
}

// watchCertificate logs a line whenever the certificate has reached a later stage, until
// ctx ends.
func (h *handler) watchCertificate(ctx context.Context) {
	if h.leaf == nil {
		return
	}
	ticker := time.NewTicker(certificateEvery)
	defer ticker.Stop()
	last := certificateGood
	for {
		if leaf := h.certificate(); leaf != nil {
			now := time.Now()
			stage := stageOf(leaf, now)
			if stage > last {
				h.log.Warn("certificate: "+certificateText(leaf, now), "subject", leaf.Subject.String(), "not_after", leaf.NotAfter.UTC())
			}
			last = stage
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
