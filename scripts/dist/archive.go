package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checksums is the file that sha256sum -c reads.
const checksums = "SHA256SUMS"

// contents returns the files of an archive or a package by their names in it, without the
// program. The files are in the tree, or were made in work.
func contents(b binary, work string) (map[string]string, error) {
	files := map[string]string{"NOTICES": b.notices()}
	read, err := pages()
	if err != nil {
		return nil, err
	}
	for _, path := range read {
		files[filepath.ToSlash(path)] = path
	}
	for _, dir := range []string{"man", "completions"} {
		entries, err := os.ReadDir(filepath.Join(work, dir))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			files[dir+"/"+e.Name()] = filepath.Join(work, dir, e.Name())
		}
	}
	return files, nil
}

// writeArchive writes the archive for people without a package manager.
func writeArchive(b binary, s source, files map[string]string, out string) (err error) {
	f, err := os.Create(filepath.Join(out, b.name(s)+".tar.gz"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	zip, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zip)
	top := b.name(s) + "/"
	if err := addFile(archive, s, top+"leasectl", b.program(), 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := addFile(archive, s, top+name, files[name], 0o644); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zip.Close())
}

// addFile adds a file that belongs to root and has the date of the commit.
func addFile(archive *tar.Writer, s source, name, path string, mode int64) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	err = archive.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(text)), ModTime: s.date, Format: tar.FormatPAX})
	if err != nil {
		return err
	}
	_, err = archive.Write(text)
	return err
}

// writeChecksums writes the checksums of all files of the release.
func writeChecksums(out string) error {
	entries, err := os.ReadDir(out) // sorted
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		f, err := os.Open(filepath.Join(out, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		f.Close()
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum.Sum(nil), e.Name())
	}
	return os.WriteFile(filepath.Join(out, checksums), []byte(sums.String()), 0o644)
}
