package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// source is the tree from which a release is made.
type source struct {
	version string    // for people, and in file names
	commit  string    // its whole id
	date    time.Time // of all files of a release
}

// isRelease reports whether the tree is exactly that of a tag.
func (s source) isRelease() bool {
	return !strings.Contains(s.version, "+") && !strings.HasPrefix(s.version, "0.0.0-")
}

// readSource asks git which commit the working directory is at. The date is that of the commit,
// unless SOURCE_DATE_EPOCH gives another one.
func readSource() (source, error) {
	inside, err := git("rev-parse", "--show-prefix")
	if err != nil {
		return source{}, fmt.Errorf("the version and the date of a release are those of its commit: %w", err)
	}
	if inside != "" {
		return source{}, errors.New("this is not the top directory of its repository: the version would be of another program")
	}
	head, err := git("log", "-1", "--format=%H %ct")
	if err != nil {
		return source{}, err
	}
	commit, committed, _ := strings.Cut(head, " ")
	date, err := unixDate(committed)
	if err != nil {
		return source{}, fmt.Errorf("date of the commit: %w", err)
	}
	version, err := describe(commit, date)
	if err != nil {
		return source{}, err
	}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		if date, err = unixDate(epoch); err != nil {
			return source{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
	}
	return source{version, commit, date}, nil
}

func unixDate(seconds string) (time.Time, error) {
	n, err := strconv.ParseInt(seconds, 10, 64)
	return time.Unix(n, 0).UTC(), err
}

// describe returns the version of the tree, as packages of Debian and Red Hat order
// them:
//
//	1.2.3                          the tag v1.2.3
//	1.2.3+5.g0123456789ab          five commits later
//	0.0.0-20261122.g0123456789ab   no tag, or a clone too shallow to have it
//
// A tree with changes, or with files that git does not know, ends in dirty. The id has twelve
// digits, because git's default depends on the size of the clone.
func describe(commit string, date time.Time) (string, error) {
	var version string
	if tag, err := git("describe", "--tags", "--long", "--abbrev=12", "--match", "v[0-9]*"); err == nil {
		m := longDescription.FindStringSubmatch(tag)
		if m == nil {
			return "", fmt.Errorf("git describes the commit as %q", tag)
		}
		if version = m[1]; m[2] != "0" {
			version += "+" + m[2] + "." + m[3]
		}
	} else {
		version = "0.0.0-" + date.Format("20060102") + ".g" + commit[:min(len(commit), 12)]
	}
	changed, err := git("status", "--porcelain")
	if err != nil {
		return "", err
	}
	switch {
	case changed == "":
		return version, nil
	case strings.Contains(version, "+"):
		return version + ".dirty", nil
	default:
		return version + "+dirty", nil
	}
}

var longDescription = regexp.MustCompile(`^v(.+)-([0-9]+)-(g[0-9a-f]+)$`)

// git runs git in the tree, which it only reads. The tree may belong to another user, as a
// clone that is mounted into a container: the user who runs its makefile trusts it already.
func git(args ...string) (string, error) {
	return output("git", append([]string{"--no-optional-locks", "-c", "safe.directory=*"}, args...)...)
}

// environment is the environment of all programs that make a release.
func (s source) environment(more ...string) []string {
	return append(append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(s.date.Unix(), 10), "TZ=UTC"), more...)
}

// output runs a program and returns its output without white space around it.
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

// call runs a program with an environment. The output is part of the error.
func call(env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
