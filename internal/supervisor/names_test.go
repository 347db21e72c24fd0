package supervisor

import "testing"

func TestNamesVariable(t *testing.T) {
	for typ, want := range map[string]string{
		"db": "LEASECTL_NAMES_DB", "aws-install": "LEASECTL_NAMES_AWS_INSTALL", "a/b 2ö": "LEASECTL_NAMES_A_B_2_",
	} {
		if got := NamesVariable(typ); got != want {
			t.Errorf("%q: %s, want %s", typ, got, want)
		}
	}
}
