package main

import (
	"os"
	"testing"
)

// The pool that adapts meets its budgets. The row "adapt" has all accounts and seeds.
func TestAccounts(t *testing.T) {
	a := accounts[0]
	var r *accountRun
	for _, i := range []int{2, 0} { // the account with most false reports, and the usual one
		a = accounts[i]
		var err error
		if r, err = a.simulate(accountSeeds[0], 0); err != nil {
			t.Fatal(err)
		}
		if hit, used := r.throttledPercent(), r.usedPart(); !a.throttled.met(hit) || !a.used.met(used) {
			t.Errorf("%s: %.2f %% are throttled, %.3f is in use", a.name, hit, used)
		}
	}
	again, err := a.simulate(accountSeeds[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	if again.hit != r.hit || again.granted != r.granted || again.used != r.used {
		t.Errorf("%s: another run of the same seed came to something else", a.name)
	}
}

// The picture in docs/pools.md shows what the pools do now.
func TestAdaptPicture(t *testing.T) {
	svg, err := adaptPicture()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile("../../docs/adapt.svg")
	if err != nil {
		t.Fatal(err)
	}
	if svg != string(kept) {
		t.Error("docs/adapt.svg is out of date: run make adapt-picture")
	}
}
