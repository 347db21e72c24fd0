package auth_test

import (
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/auth/authtest"
)

// BenchmarkAdmit is what a call costs to let in, beside what it does.
func BenchmarkAdmit(b *testing.B) {
	i := authtest.NewIssuer(b)
	ec, rs := authtest.NewKey(b, "ec"), authtest.Key{ID: "rsa", Private: rsaKey(), Alg: jose.RS256}
	i.Publish(ec, rs)
	g := auth.Open(&auth.Config{Tokens: make([]auth.Token, 10), Issuers: []auth.Issuer{trust(i)}}, silent)
	defer g.Close()
	for name, token := range map[string]string{"ES256": ec.Sign(b, i.Claims(nil)), "RS256": rs.Sign(b, i.Claims(nil)), "unknown": "a-secret-of-nobody-at-all"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g.Admit(b.Context(), "Bearer "+token)
			}
		})
	}
}
