package record

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/pool"
)

// A lease is written as encoding/json would write it, whatever its content: so encoding/json
// can read it.
func TestLeaseText(t *testing.T) {
	texts := []string{"", "", "ci/job-1", `a"b`, `a\b`, "<", ">", "&", "é", "\x00", "\xff", "\u2028", "\x7f", " ~"}
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		var lease leaseRecord
		value := reflect.ValueOf(&lease).Elem()
		for _, field := range reflect.VisibleFields(value.Type()) {
			switch f := value.FieldByIndex(field.Index); {
			case field.Anonymous: // its fields are visible, too
			case f.Type() == reflect.TypeFor[pool.Coalesce]():
				f.Set(reflect.ValueOf(pool.Coalesce(r.IntN(4))))
			case f.Kind() == reflect.String:
				f.SetString(texts[r.IntN(len(texts))])
			case f.Kind() == reflect.Bool:
				f.SetBool(r.IntN(2) == 0)
			case f.CanInt():
				f.SetInt(int64(r.IntN(3)-1) << r.IntN(63))
			case f.CanUint():
				f.SetUint(r.Uint64())
			default:
				t.Fatalf("%s is a %v", field.Name, f.Type())
			}
		}
		want, err := json.Marshal(lease)
		if err != nil {
			t.Fatal(err)
		}
		if got := lease.text(); string(got) != string(want) {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}

// The names of all fields in records. Servers of other releases wrote stores with these names.
// If a name changes, this program loses that field of such a store, although it can read its
// own records. New names are added here.
func TestRecordFields(t *testing.T) {
	for _, of := range []struct {
		record any
		want   string
	}{
		{leaseRecord{}, "type generation owner request_id count items key variant coalesce reads_key has_items weighted priority overcommit " +
			"units resizes ttl granted release_at provisional outcome broken extended other_lost at expires"},
		{waiterRecord{}, "type count items key variant coalesce reads_key has_items weighted priority overcommit " +
			"units owner ttl arrival arrived follows holds_until kept_until priority_now older overtaken"},
		{lockRecord{}, "type units key reads_key until"},
		{nameRecord{}, "last"},
		{paceRecord{}, "generation start count"},
		{pauseRecord{}, "reason since"},
		{reportsRecord{}, "limit wall gate ok cut risen suspect suspect_at moved tally"},
		{moveRecord{}, "at from to owner detail"},
		{tallyRecord{}, "limit ok throttled"},
		{endedRecord{}, "unconfirmed type owner generation units limit full outcome"},
	} {
		var names []string
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of.record)) {
			if !field.Anonymous {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); got != of.want {
			t.Errorf("%T has the fields\n%s\nwant\n%s", of.record, got, of.want)
		}
	}
}
