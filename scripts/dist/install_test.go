package main

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The README installs files that make dist makes: each name is one of them, and the
// archive has the program where the README takes it from. (check.sh installs the
// packages.)
func TestInstallLines(t *testing.T) {
	t.Chdir("../..")
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(readme), "\n## Install\n")
	_, block, _ = strings.Cut(block, "```bash\n")
	block, _, _ = strings.Cut(block, "```")

	s := source{version: "1.2.3", date: time.Unix(0, 0)}
	var made []string
	for target := range strings.SplitSeq(targets, ",") {
		system, arch, _ := strings.Cut(target, "/")
		b := binary{system: system, arch: arch}
		made = append(made, b.name(s)+".tar.gz")
		if system == "linux" {
			made = append(made, b.name(s)+".deb", b.name(s)+".rpm")
		}
	}
	names := regexp.MustCompile(`leasectl_\S+\.(tar\.gz|deb|rpm)`).FindAllString(block, -1)
	if len(names) < 3 {
		t.Fatalf("the README installs %q only", names)
	}
	for _, name := range names {
		files := 0
		for _, file := range made {
			if is, err := path.Match(name, file); is && err == nil {
				files++
			}
		}
		if files != 1 {
			t.Errorf("%s names %d files of a release: %q", name, files, made)
		}
	}

	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	b := binary{system: "linux", arch: "amd64", path: filepath.Join(work, "leasectl")}
	for _, sub := range []string{"man", "completions"} {
		if err := os.MkdirAll(filepath.Join(work, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"NOTICES": "none", "leasectl": "#!/bin/sh\necho installed\n"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeArchive(b, s, work, dir); err != nil {
		t.Fatal(err)
	}
	script, _, _ := strings.Cut(block, "\n\n") // the packages stand below
	cmd := exec.Command("bash", "-ec", strings.ReplaceAll(script, "/usr/local/bin/", ".")+"\n./leasectl")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "installed\n" {
		t.Errorf("the README's lines: %v\n%s", err, out)
	}
}
