package test

import (
	"os/exec"
	"reflect"
	"testing"
)

// kustomize is the newest that builds with the Go of go.mod.
const kustomize = "sigs.k8s.io/kustomize/kustomize/v5@v5.7.1"

// Each overlay gives the objects of the plain file, which the other tests use: image, Secrets and
// all. So there is one way to run a server, in two forms.
func TestKustomize(t *testing.T) {
	for overlay, file := range map[string]string{"one": "one.yaml", "etcd": "three-etcd.yaml", "postgres": "three-postgres.yaml"} {
		t.Run(overlay, func(t *testing.T) {
			built := exec.Command("go", "run", kustomize, "build", "../kubernetes/kustomize/"+overlay)
			out, err := built.Output()
			if exit, is := err.(*exec.ExitError); is {
				t.Fatalf("kustomize: %v\n%s", err, exit.Stderr)
			} else if err != nil {
				t.Fatal(err)
			}
			got, want := parseManifests(t, string(out)), readManifests(t, "kubernetes/"+file)
			for what, pair := range map[string][2]any{
				"ConfigMap":   {got.pools, want.pools},
				"Service":     {got.service, want.service},
				"StatefulSet": {got.stateful, want.stateful},
				"Deployment":  {got.deployed, want.deployed},
			} {
				if !reflect.DeepEqual(pair[0], pair[1]) {
					t.Errorf("%s:\n%+v\n%s has\n%+v", what, pair[0], file, pair[1])
				}
			}
		})
	}
}
