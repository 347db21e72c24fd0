package main

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/internal/holder/dial"
)

// proxyOptions are the flags that say which lease proxy to talk to.
type proxyOptions struct {
	url       string
	given     bool // on the command line: then url has precedence over a handle's proxy
	tokenFile string
	tokenFrom string
	ca        string
	required  bool      // that a proxy is set
	pools     poolFlags // of the server to start

	poolsGiven, tokenFileGiven, tokenFromGiven bool // on the command line
}

func (o *proxyOptions) bind(flags *pflag.FlagSet) {
	flags.Var(value{
		kind:   "URL",
		format: func() string { return o.url },
		set: func(s string) error {
			if s == "" {
				return errors.New("want an address")
			}
			s = strings.TrimSpace(s) // the value of a Kubernetes Secret may end in a newline
			if err := dial.Check(s); err != nil {
				return err
			}
			o.url = s
			return nil
		},
	}, "proxy", "lease proxy: http://…, https://…, unix:///socket, or local to start one here; URL,URL,… if several servers share their leases; also $"+proxyVariable+"; unset is a dry run, unless --required")
	flags.BoolVar(&o.required, "required", false, "without a proxy fail, instead of a dry run")
	flags.Var(&o.pools, "pool", "a pool of N leases named TYPE-0 and so on, for serve or the proxy that --proxy local starts; may be repeated")
	flags.StringVar(&o.tokenFile, "token-file", "", "file with the token that the proxy asks for; read again whenever it changes")
	flags.StringVar(&o.tokenFrom, "token-from", "", "what gives that token, again before it ends: github (the runner; github:AUDIENCE for another audience than leasectl), or a COMMAND for sh that prints one")
	flags.StringVar(&o.ca, "ca", "", "file with the certificates (PEM) of the authorities that vouch for an https proxy")
}

// unset tells whether no proxy is set. Then a command is a dry run, unless its handle names a
// proxy.
func (o *proxyOptions) unset() bool { return o.url == "" }

// chooseToken leaves one of --token-file and --token-from. What was typed has precedence over a
// variable.
func (o *proxyOptions) chooseToken() error {
	switch {
	case o.tokenFile == "" || o.tokenFrom == "":
	case o.tokenFileGiven == o.tokenFromGiven:
		return usagef("--token-file and --token-from: give one of them")
	case o.tokenFileGiven:
		o.tokenFrom = ""
	default:
		o.tokenFile = ""
	}
	return nil
}

func (o *proxyOptions) options() dial.Options {
	return dial.Options{
		URL:       o.url,
		Given:     o.given,
		TokenFile: o.tokenFile,
		TokenFrom: o.tokenFrom,
		CAFile:    o.ca,
		Pools:     o.pools,

		PoolsGiven: o.poolsGiven,
		Version:    version(),
	}
}
