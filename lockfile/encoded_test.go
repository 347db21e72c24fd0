package lockfile

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// JSON that is written field by field is read by encoding/json as it was, every field of it,
// with any content of strings.
func TestEncodedFields(t *testing.T) {
	var n int
	var r Record
	setFields(reflect.ValueOf(&r).Elem(), &n)
	text, err := r.encode()
	ok(t, err)
	var doc document
	ok(t, json.Unmarshal(text, &doc))
	if back := doc.record(); !reflect.DeepEqual(back, r) {
		t.Errorf("a record came back as %+v\nwant %+v", back, r)
	}
	var in Intent
	setFields(reflect.ValueOf(&in).Elem(), &n)
	text, err = in.encode()
	ok(t, err)
	var intent Intent
	ok(t, json.Unmarshal(text, &intent))
	if !reflect.DeepEqual(intent, in) {
		t.Errorf("an intent came back as %+v\nwant %+v", intent, in)
	}
}

var fieldsAt = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// The names of all fields that are in files. Programs of other versions read them. If a name
// changes both where it is written and where it is read, the field is lost: for example the
// mark that a handle's release may not be sent twice. New fields are added here.
var fileFields = map[string]string{
	"record": "acquired_at adapter also also.count also.type coalesce count format items keeper_pid key key_mode leases leases.generation leases.name leases.type name overcommit owner " +
		"priority proxy release_at " +
		"replaces replaces.generation replaces.name replaces.type replaces_of request_id resizes seal shared_list state store taker taker.issuer taker.name terms terms.owner terms.owner_pid terms.owner_space terms.release_after terms.ttl ttl type units variant within",
	"intent": "begun count dead format handle id kind left owner pid proxy request store taker taker.issuer taker.name ttl_ns type within",
	"list":   "format grants grants.adapter grants.at grants.generation grants.name grants.owner grants.proxy grants.request_id grants.store grants.taker grants.taker.issuer grants.taker.name grants.type",
	"shared": "boot format name rounds rounds.adapter rounds.bound rounds.by rounds.count rounds.deadline_ns rounds.ends_at_ns " +
		"rounds.expires_at_ns rounds.granted_ns rounds.handle rounds.id rounds.items rounds.leases rounds.leases.generation " +
		"rounds.leases.name rounds.leases.type rounds.lingers rounds.lost rounds.max_age_ns rounds.max_uses rounds.owner rounds.peak " +
		"rounds.peak.bytes rounds.peak.source rounds.proxy rounds.release_at rounds.renew_every_ns rounds.renewed_at_ns rounds.request_id " +
		"rounds.service rounds.service.command rounds.service.grace_ns rounds.service.group rounds.service.lasts_until_ns " +
		"rounds.service.over rounds.service.ready rounds.service.said rounds.service.since rounds.service.timeout_ns " +
		"rounds.service.variables rounds.since rounds.state rounds.store rounds.taker rounds.taker.issuer rounds.taker.name rounds.token rounds.token_file rounds.ttl_ns rounds.type rounds.unit rounds.units rounds.users " +
		"rounds.uses space",
}

func TestFileFields(t *testing.T) {
	var n int
	var r Record
	var in Intent
	var list listDoc
	var shared SharedTx
	for _, of := range []struct {
		what   string
		v      any
		encode func() ([]byte, error)
	}{
		{"record", &r, func() ([]byte, error) { return r.encode() }},
		{"intent", &in, func() ([]byte, error) { return in.encode() }},
		{"list", &list, func() ([]byte, error) { return json.Marshal(list) }},
		{"shared", &shared.SharedRecord, func() ([]byte, error) { return shared.encode() }},
	} {
		setFields(reflect.ValueOf(of.v).Elem(), &n)
		text, err := of.encode()
		ok(t, err)
		var fields any
		ok(t, json.Unmarshal(text, &fields))
		names := make(map[string]bool)
		addFieldNames(names, "", fields)
		if got := strings.Join(slices.Sorted(maps.Keys(names)), " "); got != fileFields[of.what] {
			t.Errorf("%s has the fields\n%s\nwant\n%s", of.what, got, fileFields[of.what])
		}
	}
}

// addFieldNames adds the names of the fields of JSON; those of a nested object as outer.inner.
func addFieldNames(names map[string]bool, in string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			names[in+name] = true
			addFieldNames(names, in+name+".", field)
		}
	case []any:
		for _, element := range v {
			addFieldNames(names, in, element)
		}
	}
}

// setFields gives each field of v another value, none of them zero.
func setFields(v reflect.Value, n *int) {
	*n++
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(fieldsAt.Add(time.Duration(*n) * 1001 * time.Microsecond)))
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprintf("%d \"<é>\"&\\\n\x01\u2028", *n))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(int64(*n))
	case v.CanUint():
		v.SetUint(uint64(*n) + 1<<63)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setFields(v.Elem(), n)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			setFields(v.Index(i), n)
		}
	default:
		for i := range v.NumField() {
			setFields(v.Field(i), n)
		}
	}
}
