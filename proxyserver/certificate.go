package proxyserver

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// A certificate that ends soon is warned of in time for a person to act, and once
// more when it presses. Some live for a day and are renewed by machines: for them
// it is a third of their life, and a tenth.
const (
	certificateSoon   = 30 * 24 * time.Hour
	certificateUrgent = 7 * 24 * time.Hour
	// certificateEvery is how often the server looks: a new certificate is shown
	// by /readyz at once, and the log may be an hour late.
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

// certificate returns the one that clients are shown; nil without TLS.
func (h *handler) certificate() *x509.Certificate {
	if h.leaf == nil {
		return nil
	}
	return h.leaf()
}

// allWarnings are those of the files, and of a certificate that ends soon.
func (h *handler) allWarnings() []warning {
	all := h.warnings.all()
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

// watchCertificate writes a line to the log whenever the end of the certificate
// has come nearer by a stage, until ctx ends.
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
