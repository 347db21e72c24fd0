// Command dist makes a release of the source tree that it is run in: archives with
// static binaries, man pages and completions, packages for Debian and Red Hat
// systems, a list of what is linked in (CycloneDX), the notices of those licenses,
// and checksums. Two runs on one commit give the same bytes, wherever they run: the
// only date in them is the commit's.
//
//	go run ./scripts/dist [-o DIR] [-targets linux/amd64,…]
//
// It needs Go and git. nfpm, which writes the packages, is pinned by nfpm.mod.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// targets are the systems of a release.
const targets = "linux/amd64,linux/arm64,linux/ppc64le,linux/s390x,darwin/amd64,darwin/arm64"

func main() {
	out := flag.String("o", "dist", "the directory to make; it must not be there, or be of an earlier run")
	wanted := flag.String("targets", targets, "which systems to build for")
	flag.Parse()
	if err := run(*out, strings.Split(*wanted, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func run(out string, targets []string) error {
	source, err := readSource()
	if err != nil {
		return err
	}
	out, err = filepath.Abs(out)
	if err != nil {
		return err
	}
	if err := clear(out); err != nil {
		return err
	}
	// What is put together, and is no part of the release by itself.
	work := filepath.Join(out, "work")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(work)

	if err := writeDocs(source, work); err != nil {
		return err
	}
	for i, target := range targets {
		system, arch, ok := strings.Cut(target, "/")
		if !ok {
			return fmt.Errorf("target %q is not SYSTEM/ARCH", target)
		}
		b, err := build(source, work, system, arch)
		if err != nil {
			return err
		}
		if i == 0 {
			// The modules are the same for every system: build constraints choose
			// files, not dependencies, and the notices name each module once.
			if err := writeNotices(b, work); err != nil {
				return err
			}
		}
		if err := writeSBOM(b, source, out); err != nil {
			return err
		}
		if err := writeArchive(b, source, work, out); err != nil {
			return err
		}
		if system == "linux" {
			if err := writePackages(b, source, work, out); err != nil {
				return err
			}
		}
		fmt.Println(b.name(source))
	}
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	return writeChecksums(out)
}

// clear removes what an earlier run left in dir, and nothing else.
func clear(dir string) error {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, checksums)); len(entries) > 0 && err != nil {
		return fmt.Errorf("%s is not of an earlier run: it has no %s; remove it, or name another directory with -o", dir, checksums)
	}
	return os.RemoveAll(dir)
}
