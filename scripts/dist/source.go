package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// source is the tree that a release is made of.
type source struct {
	version string // for people, and in file names
	date    time.Time
}

// readSource asks git which commit it is. A tree without a tag has a version that
// sorts before every release.
func readSource() (source, error) {
	stamp, err := output("git", "log", "-1", "--format=%ct")
	if err != nil {
		return source{}, err
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("date of the commit: %w", err)
	}
	s := source{date: time.Unix(seconds, 0).UTC()}
	if tag, err := output("git", "describe", "--tags", "--dirty", "--match", "v[0-9]*"); err == nil {
		s.version = strings.TrimPrefix(tag, "v")
		return s, nil
	}
	id, err := output("git", "describe", "--always", "--dirty", "--exclude", "*")
	if err != nil {
		return source{}, err
	}
	s.version = "0.0.0-" + s.date.Format("20060102") + "." + id
	return s, nil
}

// environment is that of every program that a release is made with.
func (s source) environment(more ...string) []string {
	return append(append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(s.date.Unix(), 10)), more...)
}

// output runs a program and returns the line that it prints.
func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}

// call runs a program with an environment; what it says is part of the error.
func call(env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
