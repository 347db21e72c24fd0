package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// The value of --advertise is told to everybody who asks, and clients and browsers go there. So it
// must be one URL, without a password in it.
func TestAdvertise(t *testing.T) {
	for url, valid := range map[string]bool{
		"":                                true,
		"http://leases-0:8370":            true,
		"https://leases-0.example/proxy":  true,
		"leases-0:8370":                   false,
		"http://leases-0,http://leases-1": false,
		"http://leases-0,http://leases-0": false,
		"http://leases-0,leases-1:8370":   false,
		"http://leases-0,":                false,
		"https://user:secret@leases-0":    false,
		"https://user@leases-0":           false,
		"unix:///run/leases.sock":         false, // only this machine reaches it
		"https://":                        false,
	} {
		o := databaseOptions{advertise: url}
		err := o.check("etcd://127.0.0.1/leases", pflag.NewFlagSet("serve", pflag.ContinueOnError))
		if (err == nil) != valid {
			t.Errorf("%q: %v", url, err)
		}
		if err != nil && (!strings.HasPrefix(err.Error(), "--advertise") || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: %v", url, err)
		}
	}
}
