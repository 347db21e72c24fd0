package record

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// memory is a table.
type memory map[string][]byte

func (m memory) Put(key, value []byte) error { m[string(key)] = value; return nil }

func (m memory) Delete(key []byte) error { delete(m, string(key)); return nil }

// snapshot returns the content of the records of m.
func (m memory) snapshot(t *testing.T) (snap pool.Snapshot) {
	t.Helper()
	for key, value := range m {
		if err := Add(&snap, []byte(key), value); err != nil {
			t.Fatalf("%q: %v", key, err)
		}
	}
	return snap
}

// Each kind of change is written. The test fails for a new kind, which a restart would undo.
func TestKindsAreWritten(t *testing.T) {
	for kind := range pool.Kinds {
		err := Write(memory{}, &pool.Change{
			Kind: kind, Waiter: &pool.Waiter{}, Locked: &pool.Locked{}, Pacing: &pool.Pacing{}, Naming: &pool.Naming{},
			Pause: &pool.Pause{}, Reserved: &pool.Reserved{}, Reported: &pool.Reported{}, Reports: &pool.Reports{},
		})
		if err != nil {
			t.Error(err)
		}
	}
	if err := Write(memory{}, &pool.Change{Kind: pool.Kinds}); err == nil {
		t.Error("a kind that is not known is written")
	}
}

// A lease comes back with every field. The test fails for a new field that is not stored.
func TestLeaseComesBack(t *testing.T) {
	want := pool.Lease{Outcome: pool.OutcomeThrottled, Ask: pool.Ask{Coalesce: pool.Coalesce(1)}}
	value := reflect.ValueOf(&want).Elem()
	for i, field := range reflect.VisibleFields(value.Type()) { // those of Ask, too
		switch f := value.FieldByIndex(field.Index); {
		case field.Anonymous || !f.IsZero() || field.Name == "Draining": // only a listing sets it
		case f.Kind() == reflect.String:
			f.SetString("text " + field.Name)
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.CanInt():
			f.SetInt(int64(i + 2))
		case f.CanUint():
			f.SetUint(uint64(i + 2))
		case f.Type() == reflect.TypeFor[time.Time]():
			f.Set(reflect.ValueOf(time.UnixMilli(int64(i + 2)).UTC()))
		default:
			t.Fatalf("%s is a %v", field.Name, f.Type())
		}
	}
	m := memory{}
	if err := Write(m, &pool.Change{Kind: pool.Renewed, Lease: want}); err != nil {
		t.Fatal(err)
	}
	if got := m.snapshot(t).Leases; len(got) != 1 || got[0] != want {
		t.Errorf("came back as\n%+v, want\n%+v", got, want)
	}
	if err := Write(m, &pool.Change{Kind: pool.Done, Lease: want}); err != nil || len(m) > 0 {
		t.Errorf("after its end: %v, %v", m, err)
	}
}

// A request that has ended comes back as it ended, and its keys are in the order in which
// requests are forgotten.
func TestEndedComesBack(t *testing.T) {
	var keys [][]byte
	for i, want := range []pool.Ended{
		{ID: "cancelled"},
		{ID: "unconfirmed", Unconfirmed: true},
		{ID: "removed", Removed: "the account is gone"},
		{ID: "removed in these words", Removed: "result: 7"},
		{ID: "merged", Result: 7},
	} {
		want.Until = time.Duration(i+1) * 200 * time.Hour
		m := memory{}
		if err := Write(m, &pool.Change{Kind: pool.Remembered, Ended: want}); err != nil {
			t.Fatal(err)
		}
		if got := m.snapshot(t).Ended; len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("came back as %+v, want %+v", got, want)
		}
		keys = append(keys, EndedKey(want))
		if err := Write(m, &pool.Change{Kind: pool.Forgotten, Ended: want}); err != nil || len(m) > 0 {
			t.Errorf("after it is forgotten: %v, %v", m, err)
		}
	}
	if !slices.IsSortedFunc(keys, bytes.Compare) {
		t.Errorf("keys %q", keys)
	}
}
