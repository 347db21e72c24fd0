package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// licenseFile matches the file names that modules use for the text of their license, or for the
// notices that the license requires.
var licenseFile = regexp.MustCompile(`^(?i)(LICEN[CS]E|COPYING|NOTICE|PATENTS)([.-].*)?$`)

// writeNotices writes which modules are linked into b, and their licenses. The licenses require
// that, and some require to say where the source is: it is published under the module's name.
func writeNotices(b binary) error {
	var text strings.Builder
	text.WriteString("leasectl is one static program. These modules are linked into it, unchanged; the source of\neach is published under its name and version.\n")
	dirs, err := moduleDirs(b)
	if err != nil {
		return err
	}
	for _, dep := range b.info.Deps { // sorted
		if err := addNotice(&text, dep.Path+" "+dep.Version, dirs[dep.Path]); err != nil {
			return err
		}
	}
	root, err := output("go", "env", "GOROOT")
	if err != nil {
		return err
	}
	if err := addNotice(&text, "Go's standard library and runtime, "+b.info.GoVersion, root); err != nil {
		return err
	}
	return os.WriteFile(b.notices(), []byte(text.String()), 0o644)
}

// moduleDirs returns the directories of the modules of b in the go command's cache.
func moduleDirs(b binary) (map[string]string, error) {
	args := []string{"mod", "download", "-json"}
	for _, dep := range b.info.Deps {
		if dep.Replace != nil {
			return nil, fmt.Errorf("%s is replaced: a release is made of published modules", dep.Path)
		}
		args = append(args, dep.Path+"@"+dep.Version)
	}
	out, err := output("go", args...)
	if err != nil {
		return nil, err
	}
	dirs := make(map[string]string)
	for list := json.NewDecoder(strings.NewReader(out)); list.More(); {
		var module struct{ Path, Dir string }
		if err := list.Decode(&module); err != nil {
			return nil, fmt.Errorf("go mod download: %w", err)
		}
		dirs[module.Path] = module.Dir
	}
	return dirs, nil
}

// addNotice adds the license files of a directory, under a title.
func addNotice(text *strings.Builder, title, dir string) error {
	licenses, err := licenses(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	if len(licenses) == 0 {
		return fmt.Errorf("%s: no license file in %s", title, dir)
	}
	line := strings.Repeat("=", 80)
	fmt.Fprintf(text, "\n%s\n%s\n%s\n", line, title, line)
	for _, l := range licenses {
		text.WriteString("\n" + l + "\n")
	}
	return nil
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
