package pool

import "testing"

// A caller is its name and its issuer: the same name from elsewhere is another caller, and reads
// the same.
func TestCallersOfOneName(t *testing.T) {
	file, a, b := BindOwner("acme/app", "me"), BindOwner(CallerID("acme/app", "https://a"), "me"), BindOwner(CallerID("acme/app", "https://b"), "me")
	for _, bound := range []string{file, a, b} {
		if name, owner := SplitOwner(bound); name != "acme/app" || owner != "me" {
			t.Errorf("%q reads as %q and %q", bound, name, owner)
		}
	}
	for _, pair := range [][2]string{{file, a}, {a, b}, {file, b}} {
		if ownersAgree(pair[0], pair[1]) || CallerOf(pair[0]) == CallerOf(pair[1]) {
			t.Errorf("%q and %q are taken for one", pair[0], pair[1])
		}
		r := &request{Request: Request{Owner: pair[0], Ask: Ask{Key: "k", Coalesce: Join}}}
		if other := (&request{Request: Request{Owner: pair[1], Ask: Ask{Key: "k", Coalesce: Join}}}); r.mergesWith(other) {
			t.Errorf("requests of %q and %q merge", pair[0], pair[1])
		}
	}
	if bare := BindOwner("", "me"); !ownersAgree(bare, a) || CallerOf(bare) != "" {
		t.Errorf("%q, of a server without tokens, is not everybody's", bare)
	}
}
