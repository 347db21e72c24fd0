// Command dist makes a release of the source tree in which it runs: archives with static
// binaries, man pages and completions; packages for Debian and Red Hat systems; a list of the
// linked modules (CycloneDX); the notices of their licenses; and checksums. Two runs on one
// commit with one version of Go give the same bytes on every machine: the only date in them is
// the commit's, or SOURCE_DATE_EPOCH.
//
//	go run ./scripts/dist [-o DIR] [-targets linux/amd64,…] [-afresh linux/amd64]
//
// It needs Go and git. nfpm, which writes the packages, is pinned by nfpm.mod.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// targets are the systems of a release.
const targets = "linux/amd64,linux/arm64,linux/ppc64le,linux/s390x,darwin/amd64,darwin/arm64"

func main() {
	out := flag.String("o", "dist", "the directory to make; it must not be there, or be of an earlier run")
	wanted := flag.String("targets", targets, "which systems to build for")
	afresh := flag.String("afresh", "", "compile this target with an empty build cache")
	flag.Parse()
	if err := run(*out, strings.Split(*wanted, ","), *afresh); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func run(out string, targets []string, afresh string) error {
	if afresh != "" && !slices.Contains(targets, afresh) {
		return fmt.Errorf("%s is not built: -targets does not have it", afresh)
	}
	source, err := readSource()
	if err != nil {
		return err
	}
	if err := checkChangelog(source); err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	if err := checkReplaceable(out); err != nil {
		return err
	}
	// The release gets its name only when it is complete.
	parts := out + ".new"
	if err := os.RemoveAll(parts); err != nil {
		return err
	}
	if err := os.MkdirAll(parts, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(parts)
	if err := makeRelease(source, targets, afresh, parts); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	return os.Rename(parts, out)
}

// makeRelease writes the files of a release into out, which is empty.
func makeRelease(s source, targets []string, afresh, out string) error {
	work, err := os.MkdirTemp("", "dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := writeDocs(s, work); err != nil {
		return err
	}
	for _, target := range targets {
		system, arch, ok := strings.Cut(target, "/")
		if !ok {
			return fmt.Errorf("target %q is not SYSTEM/ARCH", target)
		}
		var cache []string
		if target == afresh {
			cache = []string{"GOCACHE=" + filepath.Join(work, "cache")}
		}
		b, err := build(s, work, system, arch, cache...)
		if err != nil {
			return err
		}
		if err := writeTarget(b, s, work, out); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		fmt.Println(b.name(s))
	}
	return writeChecksums(out)
}

// writeTarget writes the files of a release for one system.
func writeTarget(b binary, s source, work, out string) error {
	if err := writeSBOM(b, s, out); err != nil {
		return err
	}
	if err := writeNotices(b); err != nil {
		return err
	}
	files, err := contents(b, work)
	if err != nil {
		return err
	}
	if err := writeArchive(b, s, files, out); err != nil {
		return err
	}
	if b.system != "linux" {
		return nil
	}
	return writePackages(b, s, files, out)
}

// checkChangelog refuses a release that CHANGELOG.md does not name.
func checkChangelog(s source) error {
	const changelog = "CHANGELOG.md"
	if !s.isRelease() {
		return nil
	}
	text, err := os.ReadFile(changelog)
	if err != nil {
		return err
	}
	if !strings.Contains("\n"+string(text), "\n## "+s.version+" ") {
		return fmt.Errorf("%s has no heading %q: write it, commit, and set the tag anew", changelog, "## "+s.version+" (DATE)")
	}
	return nil
}

// checkReplaceable refuses a directory that does not come from an earlier run.
func checkReplaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, checksums)); err != nil {
		return fmt.Errorf("%s is not of an earlier run: it has no %s; remove it, or name another directory with -o", dir, checksums)
	}
	return nil
}
