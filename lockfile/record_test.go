package lockfile

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

var fullRecord = Record{
	State:      HandleReleasing,
	RequestID:  "r2",
	Owner:      "https://ci/job/7",
	Ask:        leaseapi.Ask{Type: "aws", Count: 2},
	Proxy:      "http://proxy",
	TTL:        5 * time.Minute,
	Leases:     []Lease{{Name: "a", Generation: 18446744073709551615}, {Name: "b"}},
	SharedList: "/shared/leases",
	AcquiredAt: time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC),
	ReleaseAt:  time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC),
	KeeperPID:  42,
}

// Other versions read and write this text: it must not change.
func TestRecordJSON(t *testing.T) {
	const want = `{"state":"releasing","request_id":"r2","owner":"https://ci/job/7","type":"aws","count":2,` +
		`"proxy":"http://proxy","leases":[{"name":"a","generation":18446744073709551615},{"name":"b"}],` +
		`"shared_list":"/shared/leases","acquired_at":"2026-01-02T03:04:05.0000006Z","release_at":"2026-01-02T04:00:00Z",` +
		`"keeper_pid":42,"ttl":"5m0s"}`
	got, err := json.Marshal(fullRecord)
	ok(t, err)
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var back Record
	ok(t, json.Unmarshal(got, &back))
	if !reflect.DeepEqual(back, fullRecord) {
		t.Errorf("came back as %+v", back)
	}
	if got, _ := json.Marshal(Record{}); string(got) != "{}" {
		t.Errorf("the zero Record is %s", got)
	}
}

// The record of a newer version, with more fields in it, can be read.
func TestRecordUnknownFields(t *testing.T) {
	h := handleIn(t)
	write(t, h.path, "a\n")
	write(t, h.jsonPath(), `{"format":1,"state":"held","colour":{"r":[1]},"leases":[{"name":"a","generation":7,"units":3}],"request_id":"r"}`)
	r, err := h.Read()
	ok(t, err)
	want := Record{State: HandleHeld, RequestID: "r", Leases: []Lease{{Name: "a", Generation: 7}}}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v", r)
	}
}

func TestDecodeBroken(t *testing.T) {
	for _, text := range []string{
		"", "{", "null", "{}", "[]", `"held"`, `{"state":"held"} x`, `{"state":7}`, `{"state":"queued"}`,
		`{"state":"held","ttl":"soon"}`, `{"state":"held","ttl":300}`,
		`{"state":"held","leases":[{"name":"a/b"}]}`,
		`{"state":"held","replaces_of":"r","replaces":[{"name":"a\nb"}]}`,
		`{"state":"queued","request_id":"r","replaces":[{"name":"a","generation":1}]}`,
		`{"state":"held","leases":[{"name":"a","generation":-1}]}`,
	} {
		if r, err := decode([]byte(ofFormat1(text))); err == nil {
			t.Errorf("%q is the record %+v", text, r)
		}
	}
	for _, start := range []string{`{`, `{"format":0,`, `{"format":-1,`, `{"format":"1",`} {
		if r, err := decode([]byte(start + `"state":"held"}`)); err == nil {
			t.Errorf("%q begins the record %+v", start, r)
		}
	}
}
