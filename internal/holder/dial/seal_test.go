package dial

import (
	"path/filepath"
	"testing"

	"github.com/leasectl/leasectl/lockfile"
)

type quiet struct{}

func (quiet) Notef(string, ...any)  {}
func (quiet) Debugf(string, ...any) {}

// A record's proxy gets what is sent about the record only if flags, the environment or the state
// directory vouch for it.
func TestRecorded(t *testing.T) {
	const ours, theirs = "http://ours.test", "http://theirs.test"
	state := filepath.Join(t.TempDir(), "state") // which is ours alone, whatever the umask is
	sealed := New(Options{}, state, quiet{}).Seal(lockfile.Record{RequestID: "id", Proxy: theirs})
	if sealed.Seal == "" {
		t.Fatal("no seal")
	}
	changed := func(change func(*lockfile.Record)) lockfile.Record {
		r := sealed
		change(&r)
		return r
	}
	for _, test := range []struct {
		name   string
		o      Options
		state  string
		record lockfile.Record
		want   string // "": refused
		noted  string // what a file of the state directory may name
	}{
		{"ours", Options{URL: ours}, state, sealed, theirs, theirs},
		{"ours, and the environment names none", Options{}, state, sealed, theirs, theirs},
		{"another proxy", Options{URL: ours}, state, changed(func(r *lockfile.Record) { r.Proxy = "http://evil.test" }), "", ours},
		{"another request", Options{URL: ours}, state, changed(func(r *lockfile.Record) { r.RequestID = "other" }), "", ours},
		{"no seal", Options{URL: ours}, state, changed(func(r *lockfile.Record) { r.Seal = "" }), "", ours},
		{"of another machine", Options{URL: ours}, t.TempDir(), sealed, "", ours},
		{"of another machine, and the environment names none", Options{}, t.TempDir(), sealed, "", ""},
		{"of another machine, and the environment names it", Options{URL: theirs + "/"}, t.TempDir(), sealed, theirs, theirs},
		{"of another machine, and names more servers", Options{URL: theirs}, t.TempDir(), lockfile.Record{Proxy: theirs + ",http://evil.test"}, theirs, theirs},
		{"a flag names another", Options{URL: ours, Given: true}, t.TempDir(), sealed, ours, ours},
		{"no proxy", Options{URL: ours}, t.TempDir(), lockfile.Record{RequestID: "id"}, ours, ours},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := New(test.o, test.state, quiet{})
			got, err := d.ProxyOf(test.record)
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("asked is %q, %v, want %q", got, err, test.want)
			}
			if got := d.Own(test.record).Proxy; got != test.noted {
				t.Errorf("noted is %q, want %q", got, test.noted)
			}
		})
	}
}
