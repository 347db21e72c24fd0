package lockfile

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

var (
	checkAt     = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	checkTaker  = leaseapi.Caller{Name: "n", Issuer: "i"}
	checkLeased = []Lease{{Name: "a", Generation: 1, Type: "t"}}

	// checkDocs have, for each kind of file, all of its fields.
	checkDocs = map[string][]any{
		"record": {
			Record{
				State: HandleHeld, RequestID: "R", Owner: "o", Proxy: "http://p", Store: "s", Seal: "e", Adapter: "d",
				Ask:   leaseapi.Ask{Type: "t", Items: new(1), Key: "k", KeyMode: leaseapi.KeyWrite, Coalesce: leaseapi.CoalesceJoin, Variant: "v", Priority: 1},
				Units: 1, Resizes: 1, TTL: time.Hour, Leases: checkLeased, SharedList: "/l", AcquiredAt: checkAt, ReleaseAt: checkAt, KeeperPID: 1, Within: "W", Taker: checkTaker,
				Terms: Terms{TTL: 1, ReleaseAfter: 1, Owner: "o", OwnerPID: 1, OwnerSpace: "s"},
			}.document(format),
			Record{State: HandleQueued, RequestID: "R", Ask: leaseapi.Ask{Type: "t", Count: 1, Also: []leaseapi.Also{{Type: "u", Count: 1}}}, Replaces: checkLeased, ReplacesOf: "R0"}.document(format),
			Record{State: HandleQueued, RequestID: "R", Ask: leaseapi.Ask{Type: "t", Name: "n"}}.document(format),
			Record{State: HandleQueued, RequestID: "R", Ask: leaseapi.Ask{Type: "t", Overcommit: true}}.document(format),
		},
		"intent": {intentFile{format, Intent{
			ID: "I", Kind: KindRelease, Request: "R", Handle: "/h", Proxy: "http://p", Type: "t", Count: 1, Owner: "o", PID: 1, Begun: checkAt, Within: "W", Taker: checkTaker, TTL: 1, Store: "s", Left: true, Dead: checkAt,
		}}},
		"list": {listDoc{format, []Grant{{Lease: checkLeased[0], Proxy: "http://p", Store: "s", Adapter: "d", RequestID: "R", Owner: "o", At: checkAt, Taker: checkTaker}}}},
		"shared": {sharedDoc{format, SharedRecord{Name: "n", Boot: "b", Space: "s", Rounds: []Round{{
			ID: "N", State: RoundHeld, By: 1, Handle: "/h", Type: "t", Count: 1, Items: new(1), Proxy: "http://p", Owner: "o", Token: "k", TokenFile: "/t",
			TTL: 1, MaxUses: 1, Bound: 1, MaxAge: 1, Leases: checkLeased, Adapter: "d", Units: 1, Unit: "u", RequestID: "R", Taker: checkTaker, Store: "s", Granted: 1, Since: checkAt, ExpiresAt: 1, EndsAt: 1,
			Uses: 1, Users: []int{1}, RenewedAt: 1, RenewEvery: 1, Deadline: 1, ReleaseAt: checkAt, Lingers: true, Lost: "l", Peak: &leaseapi.Peak{Bytes: 1, Source: "s"},
			Service: &Service{Command: "c", Ready: "r", Timeout: 1, Grace: 1, Group: 2, Since: checkAt, Variables: []string{"v"}, Over: "o", Said: []string{"s"}, LastsUntil: 1},
		}}}}},
	}

	// freeTexts are fields for people, or for a shell, which may have any text; freeNumbers may be negative.
	freeTexts   = []string{"rounds.lost", "rounds.service.command", "rounds.service.ready", "rounds.service.variables", "rounds.service.over", "rounds.service.said", "rounds.peak.source"}
	freeNumbers = []string{"priority", "rounds.peak.bytes"}
)

// decodeKind decodes a file of a kind, as its reader does.
func decodeKind(t *testing.T, kind string, text []byte) error {
	t.Helper()
	dir := t.TempDir()
	switch kind {
	case "record":
		_, err := decode(text)
		return err
	case "intent":
		write(t, filepath.Join(dir, "I.json"), string(text))
		_, whole, err := readIntent(filepath.Join(dir, "I.json"))
		if err == nil && !whole {
			err = errors.New("it is not whole")
		}
		return err
	case "list":
		l := List(filepath.Join(dir, "leases"))
		write(t, string(l), "a\n")
		write(t, l.jsonPath(), string(text))
		grants, _, err := l.Read()
		if err == nil && !grants[0].identified() {
			err = errors.New("only the name is known")
		}
		return err
	}
	s := Shared(filepath.Join(dir, "s"))
	write(t, s.jsonPath(), string(text))
	_, err := s.Read()
	return err
}

// Each field of each kind of file is checked when the file is decoded: no text has control characters, no
// number is negative, and nothing is a path that leads elsewhere.
func TestEveryFieldIsChecked(t *testing.T) {
	for kind, docs := range checkDocs {
		seen := make(map[string]bool)
		for _, v := range docs {
			text, err := json.Marshal(v)
			ok(t, err)
			if err := decodeKind(t, kind, text); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			var doc any
			ok(t, json.Unmarshal(text, &doc))
			addFieldNames(seen, "", doc)
			eachField("", doc, func(to any) { doc = to }, func(field string, value any, set func(any)) {
				var bad []any
				switch value.(type) {
				case string:
					bad = []any{"a\nb", "\x1b]0;x\x07", 1, []any{}, map[string]any{}}
					if slices.Contains(freeTexts, field) {
						bad = []any{1, []any{}, map[string]any{}}
					}
				case float64:
					bad = []any{-1, 1.5, 1e30, "1", []any{}}
					if slices.Contains(freeNumbers, field) {
						bad = []any{1.5, 1e30, "1", []any{}}
					}
				case bool:
					bad = []any{"x", 1}
				}
				switch last := field[strings.LastIndexByte(field, '.')+1:]; {
				case last == "request_id", last == "request", last == "within", last == "replaces_of", field == "id", field == "rounds.id":
					bad = append(bad, "../x", "a/b", ".", "..", ".x", strings.Repeat("x", leaseapi.MaxRequestID+1))
				case field == "leases.name", field == "replaces.name", field == "name" && kind == "record", field == "grants.name", field == "rounds.leases.name":
					bad = append(bad, "../x", "a/b", ".", "..", "-x", "a,b", strings.Repeat("x", leaseapi.MaxName+1))
				case last == "handle", last == "shared_list", last == "token_file":
					bad = append(bad, "x", "../x", "./x", "/x\x00y")
				case last == "state", last == "kind":
					bad = append(bad, "", "x")
				case last == "proxy":
					bad = append(bad, "x", "../x", "/x")
				}
				for _, b := range bad {
					set(b)
					text, err := json.Marshal(doc)
					ok(t, err)
					if decodeKind(t, kind, text) == nil {
						t.Errorf("%s: %s may be %.50q", kind, field, b)
					}
				}
				set(value)
			})
		}
		if got := strings.Join(slices.Sorted(maps.Keys(seen)), " "); got != fileFields[kind] {
			t.Errorf("the fields of %s that are tried are\n%s\nof\n%s", kind, got, fileFields[kind])
		}
	}
}

// eachField calls fn for each field of JSON that is no object or array.
func eachField(field string, v any, set func(any), fn func(field string, value any, set func(any))) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			eachField(strings.TrimPrefix(field+"."+name, "."), v[name], func(to any) { v[name] = to }, fn)
		}
	case []any:
		for i := range v {
			eachField(field, v[i], func(to any) { v[i] = to }, fn)
		}
	default:
		fn(field, v, set)
	}
}
