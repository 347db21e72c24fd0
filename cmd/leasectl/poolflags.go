package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/leasectl/leasectl/internal/holder/local"
	"github.com/leasectl/leasectl/internal/pool"
)

// poolFlags is the value of --pool. The flag may be repeated, and each value may have several
// pools, separated by commas.
type poolFlags []local.Pool

func (p *poolFlags) Set(s string) error {
	for word := range strings.SplitSeq(s, ",") {
		typ, n, _ := cutLast(word, "=")
		capacity, err := strconv.Atoi(n)
		if typ == "" || err != nil || capacity < 1 || capacity > pool.MaxCapacity {
			return errors.New("want TYPE=N with N from 1 to " + strconv.Itoa(pool.MaxCapacity))
		}
		named := local.Pool{Type: typ, Capacity: capacity}
		if slices.Contains(*p, named) {
			continue // the shell's completion parses a line twice
		}
		if slices.ContainsFunc(*p, func(other local.Pool) bool { return other.Type == typ }) {
			return errors.New("want each type once")
		}
		*p = append(*p, named)
	}
	return nil
}

func (p *poolFlags) String() string {
	words := make([]string, len(*p))
	for i, named := range *p {
		words[i] = named.String()
	}
	return strings.Join(words, ",")
}

func (p *poolFlags) Type() string { return "TYPE=N" }

// configs returns the configurations of the pools, with the names TYPE-0 and so on.
func (p poolFlags) configs() []pool.Config {
	var configs []pool.Config
	for _, named := range p {
		configs = append(configs, pool.Config{Type: named.Type, Names: pool.Numbered(named.Type, named.Capacity)})
	}
	return configs
}

// cutLast is [strings.Cut] at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
