package main

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
)

// The README installs files that make dist makes: each name is one such file, and the lines
// about an archive install its program. (check.sh installs the packages.)
func TestInstallLines(t *testing.T) {
	t.Chdir("../..")
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(readme), "\n## Install\n")
	_, block, _ = strings.Cut(block, "```bash\n")
	block, _, _ = strings.Cut(block, "```")

	s := source{version: "1.2.3"}
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

	need(t, "tar")
	dir := t.TempDir()
	b := binary{system: "linux", arch: "amd64", dir: t.TempDir()}
	if err := os.WriteFile(b.program(), []byte("#!/bin/sh\necho installed\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeArchive(b, s, nil, dir); err != nil {
		t.Fatal(err)
	}
	script, _, _ := strings.Cut(block, "\n\n") // the packages come below
	cmd := exec.Command("bash", "-ec", strings.ReplaceAll(script, "/usr/local/bin/", ".")+"\n./leasectl")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "installed\n" {
		t.Errorf("the README's lines: %v\n%s", err, out)
	}
}
