package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/pool"
)

// poolFlag is one --pool T=N: a pool of N leases named T-0 to T-(N-1).
type poolFlag struct {
	typ      string
	capacity int
}

// poolFlags is the value of --pool, which may be given several times, or hold
// several separated by commas.
type poolFlags []poolFlag

func (p *poolFlags) Set(s string) error {
	for word := range strings.SplitSeq(s, ",") {
		typ, n, _ := cutLast(word, "=")
		capacity, err := strconv.Atoi(n)
		if typ == "" || err != nil || capacity < 1 || capacity > pool.MaxCapacity {
			return errors.New("want TYPE=N with N from 1 to " + strconv.Itoa(pool.MaxCapacity))
		}
		if slices.Contains(*p, poolFlag{typ, capacity}) {
			continue // the completion of a shell parses a line twice
		}
		if slices.ContainsFunc(*p, func(f poolFlag) bool { return f.typ == typ }) {
			return errors.New("want each type once")
		}
		*p = append(*p, poolFlag{typ, capacity})
	}
	return nil
}

func (p *poolFlags) String() string {
	words := make([]string, len(*p))
	for i, f := range *p {
		words[i] = f.typ + "=" + strconv.Itoa(f.capacity)
	}
	return strings.Join(words, ",")
}

func (p *poolFlags) Type() string { return "TYPE=N" }

// configs makes the pools that the flags describe.
func (p poolFlags) configs() []pool.Config {
	var configs []pool.Config
	for _, f := range p {
		configs = append(configs, pool.Config{Type: f.typ, Names: pool.Numbered(f.typ, f.capacity)})
	}
	return configs
}

// local are the pools of the local proxy that the flags describe.
func (p poolFlags) local() (pools []holder.LocalPool) {
	for _, f := range p {
		pools = append(pools, holder.LocalPool{Type: f.typ, Capacity: f.capacity})
	}
	return pools
}

// cutLast is [strings.Cut] at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
