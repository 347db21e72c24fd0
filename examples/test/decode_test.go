package test

import (
	"errors"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"

	kubernetesjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// decode decodes YAML into a type that knows every field of it, as a server of Kubernetes does
// that is asked to be strict: case counts, and nothing stands twice.
func decode(t *testing.T, text string, into any) {
	t.Helper()
	asJSON, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	unknown, err := kubernetesjson.UnmarshalStrict(asJSON, into)
	if err := errors.Join(append(unknown, err)...); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// decodeLoosely decodes those fields of YAML that a type knows.
func decodeLoosely(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// documents are the parts of a YAML file.
func documents(text string) []string { return regexp.MustCompile(`(?m)^---\n`).Split(text, -1) }

// help is what leasectl help prints of a subject.
func help(t *testing.T, subject string) string {
	t.Helper()
	out, err := exec.Command(*program, "help", subject).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// flagDefault is the default of a flag that is a duration.
func flagDefault(t *testing.T, command, flag string) time.Duration {
	t.Helper()
	m := regexp.MustCompile(`(?m)--` + flag + ` duration .*\(default (\S+)\)$`).FindStringSubmatch(help(t, command))
	if m == nil {
		t.Fatalf("%s has no --%s with a default", command, flag)
	}
	d, err := time.ParseDuration(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var environment sync.Once
var variables []string

// leasectlVariables are the variables that leasectl reads.
func leasectlVariables(t *testing.T) []string {
	t.Helper()
	environment.Do(func() { variables = regexp.MustCompile(`LEASECTL_\w+`).FindAllString(help(t, "environment"), -1) })
	return variables
}
