package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

func TestParsePools(t *testing.T) {
	const file = `
# as deployed
resources:
- type: aws-quota-slice
  state: free
  names: &names
  - us-east-1
  - "us-west-2"
- type: gcp-quota-slice
  state: free
  min-count: 2
  max-count: 3
  lifespan: 24h
  config: {type: x, content: y}
  needs: {other: 1}
- type: "azure 4"
  names: [a]
  default_ttl: 30m
  max_ttl: 12h
  v1_ttl: 6h
  max_waiters: 7
  lock_delay: 15s
- {type: least, min-count: 1}
- {type: paced, names: [p], pace: 90s}
- {type: even, max-count: 50, hold: 20m, pace: auto}
- type: mem
  units: 8192
  unit: 1Mi
  cost: {base: 128, per_item: 0.2, round_to: 32, min: 160}
  unknown: 512
  overcommit: 1024
  hold: 8192s
  pace: auto
- {type: calls, units: 10, adapt: {}, overtake: 0}
- type: finds
  overtake: 1.5
  max-count: 32
  hold: 20m
  pace: auto
  adapt: {floor: 8, start: 20}
`
	got, warnings, err := ParsePools("boskos.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	want := []pool.Config{
		{Type: "aws-quota-slice", Names: []string{"us-east-1", "us-west-2"}},
		{Type: "gcp-quota-slice", Names: []string{"gcp-quota-slice-0", "gcp-quota-slice-1", "gcp-quota-slice-2"}},
		{Type: "azure 4", Names: []string{"a"}, DefaultTTL: 30 * time.Minute, MaxTTL: 12 * time.Hour, V1TTL: 6 * time.Hour, MaxWaiters: 7, LockDelay: 15 * time.Second},
		{Type: "least", Names: []string{"least-0"}},
		{Type: "paced", Names: []string{"p"}, Pace: 90 * time.Second},
		{Type: "even", Names: pool.Numbered("even", 50), Pace: 24 * time.Second},
		{Type: "mem", Units: 8192, Unit: "1Mi", Unknown: 512, Overcommit: 1024, Pace: time.Second,
			Cost: &pool.Cost{Base: decimal(t, "128"), PerItem: decimal(t, "0.2"), RoundTo: 32, Min: 160}},
		{Type: "calls", Units: 10, Adapt: &pool.Adapt{}, Overtake: new(decimal(t, "0"))},
		{Type: "finds", Overtake: new(decimal(t, "1.5")), Names: pool.Numbered("finds", 32), Hold: 20 * time.Minute, Adapt: &pool.Adapt{Floor: 8, Start: 20}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("pools\n%+v, want\n%+v", got, want)
	}
	var texts []string
	for _, w := range warnings {
		texts = append(texts, w.String())
	}
	wantTexts := []string{
		`boskos.yaml:13:3: key "lifespan" has no meaning here`,
		`boskos.yaml:14:3: key "config" has no meaning here`,
		`boskos.yaml:15:3: key "needs" has no meaning here`,
		`boskos.yaml:11:3: min-count 2 is below max-count 3: all 3 are granted from the start, since there is nothing here that makes more of them on demand`,
	}
	if !slices.Equal(texts, wantTexts) {
		t.Errorf("warnings %q, want %q", texts, wantTexts)
	}
	if _, err := pool.New(got, pool.Snapshot{}, pool.PriorityAging); err != nil {
		t.Errorf("the pools do not take it: %v", err)
	}
}

func decimal(t *testing.T, text string) pool.Decimal {
	t.Helper()
	d, err := pool.ParseDecimal(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A setting that does nothing, or not all it says, causes a warning and no error: so an
// operator in a hurry can edit only the pace, or remove only a name.
func TestParsePoolsUnused(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       pool.Config
		warns      string
	}{
		{"hold with another pace", "resources:\n- type: t\n  names: [n]\n  pace: 3m\n  hold: 20m\n", pool.Config{Pace: 3 * time.Minute}, "c:5:3: hold is not used: that takes pace: auto"},
		{"hold alone", "resources:\n- type: t\n  names: [n]\n  hold: 20m\n", pool.Config{}, "c:4:3: hold is not used: that takes pace: auto"},
		{"floor above the pool", "resources:\n- type: t\n  names: [n]\n  adapt: {floor: 2}\n", pool.Config{Adapt: &pool.Adapt{Floor: 1}}, "c:4:18: floor 2 is above the capacity of 1, which counts instead"},
		{"start above the pool", "resources:\n- type: t\n  names: [n]\n  adapt: {start: 2}\n", pool.Config{Adapt: &pool.Adapt{Start: 1}}, "c:4:18: start 2 is above the capacity of 1, which counts instead"},
	} {
		c.want.Type, c.want.Names = "t", []string{"n"}
		got, warnings, err := ParsePools("c", []byte(c.file))
		if err != nil || !reflect.DeepEqual(got, []pool.Config{c.want}) || len(warnings) != 1 || warnings[0].String() != c.warns {
			t.Errorf("%s: %+v, %v, %v", c.name, got, warnings, err)
		}
	}
}

// Names in any state but free are not granted, and cause a warning. Other names of their type
// are granted.
func TestParsePoolsStates(t *testing.T) {
	const file = `
resources:
- {type: a, state: dirty, names: [a-1, a-2]}
- {type: a, state: "", names: [a-3]}
- {type: b, state: cleaning, min-count: 1, max-count: 2}
- {type: a, state: leased, names: [a-4]}
`
	got, warnings, err := ParsePools("c", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if want := []pool.Config{{Type: "a", Names: []string{"a-3"}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("pools %+v, want %+v", got, want)
	}
	const why = ": a janitor would have to clean these first, and there is none here: "
	want := []string{
		`c:3:20: state "dirty"` + why + `2 names of type "a" are not granted until their state is free`,
		`c:5:20: state "cleaning"` + why + `2 names of type "b" are not granted until their state is free`,
		`c:6:20: state "leased"` + why + `1 names of type "a" are not granted until their state is free`,
	}
	var texts []string
	for _, w := range warnings {
		texts = append(texts, w.String())
	}
	if !slices.Equal(texts, want) {
		t.Errorf("warnings %q, want %q", texts, want)
	}
	if _, _, err := ParsePools("c", []byte("resources:\n- {type: a, state: dirty, names: [x]}\n- {type: b, names: [x]}\n")); err == nil {
		t.Error("a name that is there twice was taken")
	}
}

func TestParsePoolsErrors(t *testing.T) {
	entry := func(lines ...string) string {
		return "resources:\n- type: t\n  names: [n]\n" + strings.Join(lines, "\n") + "\n"
	}
	for _, c := range []struct {
		name, file string
		want       string // lines
	}{
		{"empty", "", "c:1:1: the file is empty"},
		{"comment", "# nothing\n", "c:1:1: the file is empty"},
		{"null", "---\n", "c:2:1: the file is empty, not a mapping"},
		{"list", "- a\n", "c:1:1: the file is a list, not a mapping"},
		{"syntax", "resources:\n- type: [\n", "c:2:1: did not find expected node content"},
		{"tab", "resources:\n\t- x\n", "c:2:1: a tab: YAML is indented with spaces"},
		{"unknown alias", "resources: *x\n", "c:1:1: unknown anchor 'x' referenced"},
		{"two documents", entry() + "---\n{}\n", "c:5:1: a second document begins: there must be one"},
		{"no resources", "{}", "c:1:1: there is no resources"},
		{"unknown key", "resource: []\n", `c:1:1: key "resource" is not known`},
		{"resources twice", entry() + "resources: []\n", `c:5:1: key "resources" is already in line 1`},
		{"resources not a list", "resources: {}\n", "c:1:12: resources is a mapping, not a list"},
		{"resources empty", "resources: []\n", "c:1:12: resources is empty"},
		{"entry not a mapping", "resources:\n- x\n", "c:2:3: a resource is a string, not a mapping"},
		{"entry without type", "resources:\n- names: [n]\n", "c:2:3: a resource has no type"},
		{"entry without names", "resources:\n- type: t\n", "c:2:3: a resource has names, or min-count and max-count, or units"},
		{"names and counts", entry("  max-count: 3"), "c:4:3: a resource has names or counts, not both"},
		{"unknown key of an entry", entry("  paces: 3m"), `c:4:3: key "paces" is not known`},
		{"key with another dash", entry("  default-ttl: 1h", "  Max_Waiters: 3"), "c:4:3: key \"default-ttl\" is not known: did you mean default_ttl\nc:5:3: key \"Max_Waiters\" is not known: did you mean max_waiters"},
		{"tab", "resources:\n- type: t\n\tnames: [n]\n", "c:3:1: a tab: YAML is indented with spaces"},
		{"tab after a dash", "resources:\n-\ttype: t\n", "c:2:2: a tab: YAML is indented with spaces"},
		{"tab in a mapping", "resources:\n- type: t\n  adapt:\n  \tfloor: 1\n", "c:4:3: a tab: YAML is indented with spaces"},
		{"key of an entry twice", entry("  names: [m]"), `c:4:3: key "names" is already in line 3`},
		{"key that is a list", entry("  [a]: b"), `c:4:3: key "" is not known`},
		{"pace without unit", entry("  pace: 3"), "c:4:9: pace is not a duration such as 90s, 30m or 4h"},
		{"pace zero", entry("  pace: 0s"), "c:4:9: pace 0s is not positive"},
		{"pace auto without hold", entry("  pace: auto"), "c:4:9: pace auto needs hold, how long a lease is held as a rule"},
		{"hold negative", entry("  pace: auto", "  hold: -1s"), "c:5:9: hold -1s is not positive"},
		{"pace a list", entry("  pace: [auto]"), "c:4:9: pace is not a duration such as 90s, 30m or 4h"},
		{"type twice", entry("- type: t", "  names: [m]"), `c:4:9: type "t" is already in line 2`},
		{"name twice", "resources:\n- type: t\n  names:\n  - n\n  - n\n", `c:5:5: name "n" is already in line 4`},
		{"name in two entries", entry("- type: u", "  names: [m, n]"), `c:5:14: name "n" is already in line 3`},
		{"made name twice", "resources:\n- type: u\n  names: [t-1]\n- type: t\n  max-count: 2\n", `c:4:9: name "t-1" is already in line 3`},
		{"made name not valid", "resources:\n- type: a b\n  max-count: 2\n", `c:2:9: name "a b-0" contains ' '`},
		{"name not valid", "resources:\n- type: t\n  names: [a/b]\n", `c:3:11: name "a/b" contains '/'`},
		{"a name that is an option", "resources:\n- type: t\n  names: [-rf]\n", `c:3:11: name "-rf" begins with a dash, as options do`},
		{"a name that is a directory", "resources:\n- type: t\n  names: [..]\n", `c:3:11: name ".." is a directory in every path`},
		{"a name that is two", "resources:\n- type: t\n  names: ['a,b']\n", `c:3:11: name "a,b" contains ','`},
		{"name is a number", "resources:\n- type: t\n  names: [17]\n", "c:3:11: a name is a number, not a string; quotes make it one"},
		{"name is a date", "resources:\n- type: t\n  names: [2001-01-01]\n", "c:3:11: a name is a date, not a string; quotes make it one"},
		{"name is empty", "resources:\n- type: t\n  names: ['']\n", "c:3:11: a name is empty"},
		{"names is a string", "resources:\n- type: t\n  names: n\n", "c:3:10: names is a string, not a list"},
		{"names is empty", "resources:\n- type: t\n  names: []\n", "c:3:10: names is empty"},
		{"type is a boolean", "resources:\n- type: true\n  names: [n]\n", "c:2:9: type is a boolean, not a string; quotes make it one"},
		{"type is null", "resources:\n- type:\n  names: [n]\n", "c:2:8: type is empty, not a string; quotes make it one"},
		{"type not valid", "resources:\n- type: \"a\\nb\"\n  names: [n]\n", `c:2:9: type "a\nb" contains '\n'`},
		{"v1_ttl above max_ttl", entry("  max_ttl: 1h", "  v1_ttl: 2h"), "c:5:3: v1_ttl 2h0m0s is above max_ttl 1h0m0s"},
		{"state not a string", entry("  state: [free]"), "c:4:10: state is a list, not a string; quotes make it one"},
		{"counts reversed", "resources:\n- type: t\n  min-count: 3\n  max-count: 2\n", "c:4:3: max-count 2 is below min-count 3"},
		{"counts zero", "resources:\n- type: t\n  min-count: 0\n  max-count: 0\n", "c:3:3: the greater count is 0: a pool needs one resource at least"},
		{"count too great", "resources:\n- type: t\n  max-count: 100001\n", "c:3:3: 100001 resources are too many: at most 100000"},
		{"count not a number", "resources:\n- type: t\n  max-count: '3'\n", "c:3:14: max-count is not a whole number"},
		{"count a fraction", "resources:\n- type: t\n  max-count: 3.5\n", "c:3:14: max-count is not a whole number"},
		{"count beyond 64 bits", "resources:\n- type: t\n  max-count: 99999999999999999999\n", "c:3:14: max-count is not a whole number"},
		{"count negative", "resources:\n- type: t\n  min-count: -1\n", "c:3:14: min-count -1 is less than 0"},
		{"waiters zero", entry("  max_waiters: 0"), "c:4:16: max_waiters 0 is less than 1"},
		{"ttl without unit", entry("  max_ttl: 90"), "c:4:12: max_ttl is not a duration such as 90s, 30m or 4h"},
		{"ttl zero", entry("  default_ttl: 0s"), "c:4:16: default_ttl 0s is not positive"},
		{"ttl above the maximum", entry("  default_ttl: 2h", "  max_ttl: 1h"), "c:4:3: default_ttl 2h0m0s is above max_ttl 1h0m0s"},
		{"adapt a number", entry("  adapt: 8"), "c:4:10: adapt is a number, not a mapping"},
		{"adapt with another key", entry("  adapt: {ceiling: 8}"), `c:4:11: key "ceiling" is not known`},
		{"floor zero", entry("  adapt: {floor: 0}"), "c:4:18: floor 0 is less than 1"},
		{"start below the floor", "resources:\n- type: t\n  units: 9\n  adapt: {start: 2, floor: 3}\n", "c:4:18: start 2 is below floor 3"},
		{"units and names", entry("  units: 3"), "c:4:3: a resource has units, or names or counts, not both"},
		{"units and counts", "resources:\n- type: t\n  max-count: 3\n  units: 3\n", "c:4:3: a resource has units, or names or counts, not both"},
		{"units zero", "resources:\n- type: t\n  units: 0\n", "c:3:10: units 0 is less than 1"},
		{"units a fraction", "resources:\n- type: t\n  units: 1.5\n", "c:3:10: units is not a whole number"},
		{"too many units", "resources:\n- type: t\n  units: 1000000001\n", "c:3:3: 1000000001 units are too many: at most 1000000000"},
		{"unit of names", entry("  unit: 1Mi"), "c:4:3: unit has no meaning without units, which a resource has instead of names"},
		{"overcommit of names", entry("  overcommit: 1", "  unknown: 2"), "c:4:3: overcommit has no meaning without units, which a resource has instead of names"},
		{"overcommit of counts", "resources:\n- type: t\n  min-count: 1\n  max-count: 4\n  overcommit: 1\n", "c:5:3: overcommit has no meaning without units, which a resource has instead of min-count and max-count: say units: 4"},
		{"overtake negative", "resources:\n- type: t\n  units: 3\n  overtake: -1\n", `c:4:13: overtake "-1" is not a decimal number such as 0.2`},
		{"overtake a word", "resources:\n- type: t\n  units: 3\n  overtake: never\n", "c:4:13: overtake is a string, not a decimal number such as 0.2"},
		{"overcommit negative", "resources:\n- type: t\n  units: 3\n  overcommit: -1\n", "c:4:15: overcommit -1 is less than 0"},
		{"unit empty", "resources:\n- type: t\n  units: 3\n  unit:\n", "c:4:8: unit is empty, not a word such as 1Mi"},
		{"cost a number", "resources:\n- type: t\n  units: 3\n  unknown: 1\n  cost: 0.2\n", "c:5:9: cost is a number, not a mapping"},
		{"cost with another key", "resources:\n- type: t\n  units: 3\n  unknown: 1\n  cost: {per_items: 1}\n", `c:5:10: key "per_items" is not known`},
		{"cost of text", "resources:\n- type: t\n  units: 3\n  unknown: 1\n  cost: {per_item: '0.2'}\n", "c:5:20: per_item is a string, not a decimal number such as 0.2"},
		{"cost negative", "resources:\n- type: t\n  units: 3\n  unknown: 1\n  cost: {base: -0.2}\n", `c:5:16: base "-0.2" is not a decimal number such as 0.2`},
		{"cost to round to nothing", "resources:\n- type: t\n  units: 3\n  unknown: 1\n  cost: {round_to: 0}\n", "c:5:20: round_to 0 is less than 1"},
		{"cost without unknown", "resources:\n- type: t\n  units: 3\n  cost: {per_item: 1}\n", "c:4:3: cost needs unknown, the units of a request whose items are not known"},
		{"cost above the pool", "resources:\n- type: t\n  units: 3\n  unknown: 1\n  cost: {base: 4}\n", "c:2:3: no items cost 4 units, and the pool has 3"},
		{"unknown above the pool", "resources:\n- type: t\n  units: 3\n  unknown: 4\n", "c:4:3: unknown 4 is above units 3"},
		{"name as if made up", "resources:\n- type: u\n  names: [x, t-7]\n- type: t\n  units: 3\n", `c:3:14: name "t-7" looks like one that the pool "t" of line 4 makes up`},
		{"alias", "resources:\n- type: t\n  names: &x [n]\n- type: u\n  names: *x\n", `c:3:14: name "n" is already in line 3`},
		{"alias of the wrong kind", "resources:\n- type: &x t\n  names: *x\n", "c:3:10: names is a string, not a list"},
		{"several", "resources:\n- type: t\n  name: [n]\n- names: [m]\n", "c:3:3: key \"name\" is not known\nc:4:3: a resource has no type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pools, _, err := ParsePools("c", []byte(c.file))
			if err == nil || err.Error() != c.want {
				t.Errorf("error\n%v, want\n%s", err, c.want)
			}
			if pools != nil {
				t.Errorf("there are pools beside an error: %+v", pools)
			}
		})
	}
}

func TestParsePoolsReportsTenErrors(t *testing.T) {
	var file strings.Builder
	file.WriteString("resources:\n")
	for i := range 5 {
		fmt.Fprintf(&file, "- type: t%d\n", i)
	}
	fmt.Fprintf(&file, "- type: t\n  names: [%s]\n", strings.Repeat("a/b, ", 30))
	_, _, err := ParsePools("c", []byte(file.String()))
	if n := len(strings.Split(err.Error(), "\n")); n != 10 {
		t.Errorf("%d errors are reported, want 10", n)
	}
}

func FuzzParsePools(f *testing.F) {
	f.Add([]byte("resources:\n- type: t\n  min-count: 3\n"))
	f.Add([]byte("resources: [{type: &a t, names: [*a]}]"))
	for _, file := range []string{
		"", "resources:", "resources: [", "- a", "a: &a [*a]", "\xff\xfe", "resources:\n- {type: t, names: [n], pace: auto, hold: 20m, max_ttl: 1h, default_ttl: 1h}\n",
		"resources:\n- {type: t, max-count: 100000, pace: 1ns, max_waiters: 1}\n- {type: u, names: [1.2.3.4], state: free, lifespan: 1h, needs: {}}\n",
		"resources:\n- <<: {type: t}\n  names: [n]\n", "resources: !!set {a}", "resources:\n- type: !!binary dA==\n  names: [n]\n", "{resources: [{type: t, names: [n]}]}\n---\n{}",
		"resources:\n- type: t\n  units: 3\n  cost: {base: 1e2, per_item: 0.1}\n  unknown: 1\n- {type: u, names: [t-1]}\n", "resources:\n- {type: t, units: 1, overcommit: 1, unit: 1}\n- {type: u, names: [t-a]}\n",
		"resources:\n- type: t\n  max-count: 0x10\n  hold: 9223372036s\n  pace: auto\n",
	} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pools, _, err := ParsePools("c", data)
		if err != nil {
			return
		}
		if _, err := pool.New(pools, pool.Snapshot{}, pool.PriorityAging); err != nil {
			t.Errorf("the pools do not take what was parsed: %v", err)
		}
	})
}
