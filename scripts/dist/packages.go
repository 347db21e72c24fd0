package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// placed is where the packages put a file of the archive.
func placed(name string) string {
	switch dir, base, _ := strings.Cut(name, "/"); {
	case dir == "man":
		return "/usr/share/man/man1/" + base
	case base == "leasectl.bash":
		return "/usr/share/bash-completion/completions/leasectl"
	case base == "_leasectl":
		return "/usr/share/zsh/vendor-completions/_leasectl"
	case base == "leasectl.fish":
		return "/usr/share/fish/vendor_completions.d/leasectl.fish"
	default:
		return "/usr/share/doc/leasectl/" + name
	}
}

// unitFiles are the files of the packages for a server under systemd: paths in the tree, and
// where they are installed. They are neither enabled nor started.
var unitFiles = map[string]string{
	"examples/systemd/leasectl.service": "/usr/lib/systemd/system/leasectl.service",
	"examples/systemd/sysusers.conf":    "/usr/lib/sysusers.d/leasectl.conf",
	"examples/systemd/pools.yaml":       "/etc/leasectl/pools.yaml",
}

// packageScripts are the scripts that a package manager runs. Red Hat's makes the user and
// reloads systemd by itself.
var packageScripts = map[string]map[string]string{
	"deb": {
		"postinstall": "scripts/dist/deb-postinst.sh",
		"preremove":   "scripts/dist/deb-prerm.sh",
		"postremove":  "scripts/dist/deb-postrm.sh",
	},
	"rpm": {"preremove": "scripts/dist/rpm-preun.sh"},
}

// writePackages writes a .deb and a .rpm of b.
func writePackages(b binary, s source, files map[string]string, out string) error {
	type info struct {
		Mode  int       `json:"mode"`
		MTime time.Time `json:"mtime"`
	}
	type content struct {
		Src  string `json:"src"`
		Dst  string `json:"dst"`
		Type string `json:"type,omitempty"`
		Info info   `json:"file_info"`
	}
	list := []content{{b.program(), "/usr/bin/leasectl", "", info{0o755, s.date}}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		list = append(list, content{files[name], placed(name), "", info{0o644, s.date}})
	}
	for _, path := range slices.Sorted(maps.Keys(unitFiles)) {
		kind := ""
		if strings.HasPrefix(unitFiles[path], "/etc/") {
			kind = "config|noreplace" // changes of an administrator stay
		}
		list = append(list, content{path, unitFiles[path], kind, info{0o644, s.date}})
	}
	overrides := make(map[string]any)
	for kind, scripts := range packageScripts {
		overrides[kind] = map[string]any{"scripts": scripts}
	}
	// JSON is YAML, which is what nfpm reads.
	config, err := json.Marshal(map[string]any{
		"name": "leasectl", "platform": b.system, "arch": b.arch, "version": s.version, "mtime": s.date,
		"section": "admin", "maintainer": "The leasectl authors <https://github.com/leasectl/leasectl>", "license": "Apache-2.0",
		"homepage":    "https://github.com/leasectl/leasectl",
		"description": "leases for CI steps that share an account\nTakes a lease from an HTTP lease proxy before a step does what a shared\naccount can bear only so often, and gives it back however the step ends.",
		"contents":    list,
		"overrides":   overrides,
		"rpm":         map[string]string{"buildhost": "localhost"}, // otherwise the name of this machine
	})
	if err != nil {
		return err
	}
	path := filepath.Join(b.dir, "nfpm.json")
	if err := os.WriteFile(path, config, 0o644); err != nil {
		return err
	}
	for _, kind := range []string{"deb", "rpm"} {
		target := filepath.Join(out, b.name(s)+"."+kind)
		if err := call(s.environment(), "go", "tool", "-modfile=scripts/dist/nfpm.mod", "nfpm", "package", "--config", path, "--packager", kind, "--target", target); err != nil {
			return err
		}
	}
	return nil
}
