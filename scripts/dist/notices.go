package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// licenseFile is what modules call the text of their license, or of the notices
// that it asks to pass on.
var licenseFile = regexp.MustCompile(`^(?i)(LICEN[CS]E|COPYING|NOTICE|PATENTS)([.-].*)?$`)

// writeNotices writes work/NOTICES: which modules are linked into b, and their
// licenses. Those ask for it, and some ask to say where the source is: it is published
// under the module's name.
func writeNotices(b binary, work string) error {
	var text strings.Builder
	text.WriteString("leasectl is one static program. These modules are linked into it, unchanged; the source of\neach is published under its name and version.\n")
	deps := b.info.Deps
	sort.Slice(deps, func(i, j int) bool { return deps[i].Path < deps[j].Path })
	for _, dep := range deps {
		if dep.Replace != nil {
			return fmt.Errorf("%s is replaced: a release is made of published modules", dep.Path)
		}
		dir, err := moduleDir(dep.Path, dep.Version)
		if err != nil {
			return err
		}
		texts, err := licenses(dir)
		if err != nil {
			return err
		}
		if len(texts) == 0 {
			return fmt.Errorf("%s@%s has no license file", dep.Path, dep.Version)
		}
		fmt.Fprintf(&text, "\n%s\n%s %s\n%s\n", strings.Repeat("=", 80), dep.Path, dep.Version, strings.Repeat("=", 80))
		for _, t := range texts {
			text.WriteString("\n" + t + "\n")
		}
	}
	root, err := output("go", "env", "GOROOT")
	if err != nil {
		return err
	}
	texts, err := licenses(root)
	if err != nil {
		return err
	}
	fmt.Fprintf(&text, "\n%s\nGo's standard library and runtime, %s\n%s\n", strings.Repeat("=", 80), b.info.GoVersion, strings.Repeat("=", 80))
	for _, t := range texts {
		text.WriteString("\n" + t + "\n")
	}
	return os.WriteFile(filepath.Join(work, "NOTICES"), []byte(text.String()), 0o644)
}

// moduleDir returns where the go command keeps a module.
func moduleDir(path, version string) (string, error) {
	out, err := output("go", "mod", "download", "-json", path+"@"+version)
	if err != nil {
		return "", err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(out), &module); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return module.Dir, nil
}

// licenses returns the texts of the license files in dir.
func licenses(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, e := range entries {
		if e.IsDir() || !licenseFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, strings.TrimSpace(string(text)))
	}
	return texts, nil
}
