package record

import (
	"reflect"
	"strings"
	"testing"
)

// The names of all fields in records. Servers of other releases wrote stores with these names.
// If a name changes, this program loses that field of such a store, although it can read its
// own records. New names are added here.
func TestRecordFields(t *testing.T) {
	for _, of := range []struct {
		record any
		want   string
	}{
		{leaseRecord{}, "type generation owner request_id count items key name variant coalesce reads_key has_items weighted also priority overcommit " +
			"asked_type units resizes ttl granted release_at provisional outcome broken extended other_lost at expires"},
		{waiterRecord{}, "type count items key name variant coalesce reads_key has_items weighted also priority overcommit " +
			"units owner ttl arrival arrived follows holds_until kept_until priority_now older overtaken passed also_units"},
		{lockRecord{}, "type units key reads_key until"},
		{nameRecord{}, "last"},
		{reservationRecord{}, "type owner reason since at until"},
		{paceRecord{}, "generation start count"},
		{pauseRecord{}, "reason since"},
		{reportsRecord{}, "limit wall gate ok cut risen suspect suspect_at suspects usual_throttled usual_ok moved tally"},
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
