package campaign

import (
	"context"
	"flag"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/leaseapi"
)

var callersFor = flag.Duration("callers-for", 0, "how long TestCallersCampaign lasts for each kind of attack and each token, with a bound of a second for each call: 1m, for a whole campaign; 0: all together, for two seconds")

const (
	attackers  = 40
	mostStored = 100 << 20 // bytes of the store
)

// attacks are what a caller sends to cost a server the most: the target, and the body.
func attacks() map[string]func() (target, body string) {
	list := func(of string, n int) string { return "[" + strings.TrimSuffix(strings.Repeat(of+",", n), ",") + "]" }
	always := func(target, body string) func() (string, string) {
		return func() (string, string) { return target, body }
	}
	zeros := strings.Repeat("0", leaseapi.MaxRequestID)
	ids := func(n, length int) func() (string, string) {
		return func() (string, string) {
			from := rand.Uint64()
			body := []byte(`{"request_ids":["`)
			for i := range uint64(n) {
				id := strconv.FormatUint(from+i, 36)
				body = append(append(body, zeros[:length-len(id)]...), id+`","`...)
			}
			return leaseapi.PathRelease, string(body[:len(body)-2]) + `]}`
		}
	}
	return map[string]func() (string, string){
		"ids":              ids(100, leaseapi.MaxRequestID),
		"too many ids":     always(ids(40_000, 20)()),
		"nothings":         always(leaseapi.PathRenew, `{"leases":`+list("{}", 300_000)+`}`),
		"renewals":         always(leaseapi.PathRenew, `{"leases":`+list(`{"name":"`+strings.Repeat("x", 30)+`","generation":1}`, 16_000)+`}`),
		"the same again":   always(leaseapi.PathRelease, `{"delay":"1h","leases":`+list(`{"name":"q-0","generation":1}`, 16_000)+`}`),
		"leases of a unit": always(leaseapi.PathAcquire+"?type=mem&count=1000", ""),
		"logins":           always("/ui/login", ""),
	}
}

// TestCallersCampaign lets jobs with a token, of one pool and of all, do their worst: 40 at once, and half of
// their calls leave before they are answered. The rest is as in TestStrangersCampaign; the store stays below 100 MiB, and a session of another caller stays.
//
//	go test -run TestCallersCampaign -callers-for 1m -timeout 1h ./cmd/leasectl/campaign
func TestCallersCampaign(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{"one pool": secretOfOne, "all pools": secretOfAll}
	if *callersFor == 0 {
		s := newBesieged(t, nil)
		var all []func(context.Context)
		for _, secret := range secrets {
			for _, attack := range attacks() {
				all = append(all, s.attackers(secret, attack, attackers/len(attacks()))...)
			}
		}
		s.storm(t, shortStorm, clitest.Patience, shortPercent, all)
		s.checkStore(t)
		return
	}
	for whose, secret := range secrets {
		for name, attack := range attacks() {
			t.Run(whose+"/"+name, func(t *testing.T) {
				s := newBesieged(t, nil)
				s.storm(t, *callersFor, time.Second, 95, s.attackers(secret, attack, attackers))
				s.checkStore(t)
			})
		}
	}
}

// attackers returns n of them, with the token of a secret.
func (s *besieged) attackers(secret string, attack func() (target, body string), n int) (all []func(context.Context)) {
	for range n {
		all = append(all, func(ctx context.Context) {
			for ctx.Err() == nil {
				s.attack(ctx, secret, attack)
			}
		})
	}
	return all
}

// attack sends one call, whatever its answer.
func (s *besieged) attack(ctx context.Context, secret string, attack func() (target, body string)) {
	stays := 10 * time.Second
	if rand.IntN(2) == 0 {
		stays = rand.N(100 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(ctx, stays)
	defer cancel()
	target, body := attack()
	contentType := "application/json"
	if target == "/ui/login" {
		contentType, body = "application/x-www-form-urlencoded", url.Values{"token": {secret}}.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+s.address+target, strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Authorization", "Bearer "+secret)
	if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// checkStore checks how large the store is.
func (s *besieged) checkStore(t *testing.T) {
	var size int64
	filepath.WalkDir(s.Path("data"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	})
	t.Logf("the store has %d MiB", size>>20)
	if size > mostStored {
		t.Errorf("the store has %d MiB", size>>20)
	}
}
