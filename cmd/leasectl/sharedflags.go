package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/internal/holder/shared"
	"github.com/leasectl/leasectl/internal/supervisor"
)

// sharedOptions are the flags of exec with which commands of a machine share one
// lease.
type sharedOptions struct {
	name    string
	maxUses usesBound
	maxAge  time.Duration
	linger  time.Duration
	service serviceOptions
}

// serviceOptions are the flags of exec for the service of a shared lease.
type serviceOptions struct {
	command string
	ready   string
	timeout time.Duration
}

// usesBound is how often a round may be used.
type usesBound struct {
	uses    int // zero: any number
	percent int // of uses, more while no other lease is free
}

// withShared are the flags that need --shared.
var withShared = []string{"max-uses", "max-age", "linger", "service"}

// withService are the flags that need --service.
var withService = []string{"service-env", "service-timeout"}

// aloneFlags are the flags that do not go with --shared: each is about a lease that only this
// command uses.
var aloneFlags = []string{"also", "key", "key-mode", "name", "priority", "coalesce", "attempts", "release-after", "handle", "scope"}

const (
	defaultPercent = 10
	minLinger      = time.Second
)

func (o *sharedOptions) bind(flags *pflag.FlagSet) {
	flags.Var(sharedValue(&o.name), "shared", "share one lease with the commands of this machine that have the same NAME, type and proxy")
	flags.Var(usesValue(&o.maxUses), "max-uses", "with --shared: take a new lease after N uses, or at most PERCENT more (default 10%) while none is free")
	flags.Var(durationValue(&o.maxAge, 0, time.Second, maxTime), "max-age", "with --shared: take a new lease after this long, or up to a tenth earlier")
	flags.Var(durationValue(&o.linger, 0, minLinger, maxTime), "linger", "with --shared: the last user leaves the lease for this long to those who come next")
	flags.Var(commandValue(&o.service.command), "service", "with --shared: a command line for sh, whose process comes with the lease and is shared, too")
	flags.Var(readyValue(&o.service.ready), "service-env", "which line of the service's output says that it is ready, and has variables for the commands (default: NAME='value'); '': ready after a second")
	flags.Var(durationValue(&o.service.timeout, time.Minute, time.Second, time.Hour), "service-timeout", "how long the service may take until it is ready")
}

// check refuses flags that do not fit together.
func (o *sharedOptions) check(flags *pflag.FlagSet) error {
	if !flags.Changed("shared") {
		for _, name := range withShared {
			if flags.Changed(name) {
				return usagef("--%s goes with --shared: name the lease to share, such as --shared provider", name)
			}
		}
	}
	if !flags.Changed("service") {
		for _, name := range withService {
			if flags.Changed(name) {
				return usagef("--%s goes with --service: say which process comes with the lease, such as --service 'terraform-provider-x -debug'", name)
			}
		}
	}
	if !flags.Changed("shared") {
		return nil
	}
	for _, name := range aloneFlags {
		if f := flags.Lookup(name); f != nil && typed(f) {
			return usagef("--%s does not go with --shared: a lease that others use, too, is taken and given back for all of them", name)
		}
	}
	return nil
}

// request returns how to share the lease; nil: it is not shared. anyTTL says that the TTL is a
// default.
func (o *sharedOptions) request(anyTTL bool) *shared.Options {
	if o.name == "" {
		return nil
	}
	return &shared.Options{
		Name:    o.name,
		MaxUses: o.maxUses.uses, Percent: o.maxUses.percent,
		MaxAge: o.maxAge,
		Linger: o.linger,
		AnyTTL: anyTTL,
		Within: os.Getenv(supervisor.UsesVariable),
	}
}

// request returns the service to share; nil: there is none.
func (o *serviceOptions) request(grace time.Duration) (*shared.Service, error) {
	if o.command == "" {
		return nil, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the directory of the service: %w", err)
	}
	return &shared.Service{Command: o.command, Ready: o.ready, Timeout: o.timeout, Grace: grace, Dir: dir}, nil
}

// commandValue takes a command line.
func commandValue(p *string) pflag.Value {
	return one(stringValue(p, "COMMAND", func(s string) error {
		if strings.TrimSpace(s) == "" {
			return errors.New("want a command line")
		}
		return nil
	}), "one service: start several processes in one command line")
}

// readyValue takes a regular expression that has the variables of a service, or nothing.
func readyValue(p *string) pflag.Value {
	*p = shared.DefaultReady
	v := stringValue(p, "RE", func(s string) error {
		if s == "" {
			return nil
		}
		return shared.CheckReady(s)
	})
	v.format = func() string { return "" } // its usage describes the default
	return v
}

// sharedValue takes any text that is not empty. With an empty name, all commands whose variable is
// empty by mistake would share a lease.
func sharedValue(p *string) pflag.Value {
	return stringValue(p, "NAME", func(s string) error {
		if s == "" {
			return errors.New("want a name")
		}
		return nil
	})
}

// usesValue takes N or N+PERCENT%.
func usesValue(p *usesBound) pflag.Value {
	return value{
		kind: "N[+PERCENT%]",
		format: func() string {
			if p.uses == 0 {
				return ""
			}
			return fmt.Sprintf("%d+%d%%", p.uses, p.percent)
		},
		set: func(s string) error {
			number, margin, has := strings.Cut(s, "+")
			uses, err := strconv.Atoi(number)
			percent := defaultPercent
			if has && err == nil {
				digits, ok := strings.CutSuffix(margin, "%")
				if percent, err = strconv.Atoi(digits); !ok {
					err = errors.New("no percent sign")
				}
			}
			if err != nil || uses < 1 || uses > math.MaxInt32 || percent < 0 || percent > 1000 {
				return errors.New("want a number of uses from 1 on, such as 100, or with a margin from 0 to 1000 percent, such as 100+20%")
			}
			*p = usesBound{uses: uses, percent: percent}
			return nil
		},
	}
}
