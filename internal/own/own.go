// Package own says which files and directories of the machine may be used: those that nobody but this
// user and root can put something else in the place of.
//
// A part of a path may be a link, if the link is this user's or root's. A directory may be one that others
// can write to, such as /tmp or a volume: of what is in it only what is this user's or root's counts.
//
// Caveats: access control lists and capabilities are not looked at. Checks are made on paths. They hold
// afterwards, since only this user and root can change a path that they accept; of a path of another user
// see [As]. Who opens a file in a directory of others must look at the open file, or make it.
package own

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// thisUser is who runs this process, which never becomes another; a thread of it may, in [As].
var thisUser = os.Geteuid()

// Owner is a user, and the group of what belongs to the user.
type Owner struct{ User, Group int }

// OwnerOf returns the owner of a file or directory.
func OwnerOf(info fs.FileInfo) Owner {
	stat := info.Sys().(*syscall.Stat_t)
	return Owner{int(stat.Uid), int(stat.Gid)}
}

// Dir returns an error if a part of the path of a directory, or a link that it leads through, is neither
// ours nor root's. What is missing is no error: nobody else can have made it.
func Dir(path string) error { return walk(path, false) }

// DirForRoot is [Dir], but root on Linux may also use directories of one other user, if only that user can
// write to them, such as a job's checkout that is mounted into a container. That user may put anything else
// there at any time, so root must do there whatever it does with [As]. [Uses] tells which files may be used.
func DirForRoot(path string) error { return walk(path, adopts && thisUser == 0) }

// As runs fn, which opens, makes, replaces or removes files in a directory that [DirForRoot] accepts. If the path
// of the directory leads through another user's directories or links, fn has the rights of that user and no
// others, in its own goroutine only: wherever that user makes the path lead meanwhile, fn can do nothing
// that the user could not do. What it makes is the user's.
func As(dir string, fn func() error) error {
	if !adopts || thisUser != 0 {
		return fn()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	known, err := at(dir, true)
	if err != nil {
		return err
	}
	if known.other.User == 0 {
		return fn()
	}
	return as(known.other, fn)
}

// Uses reports whether a file is this user's or, for root, of a user to whose directory only that user can
// write.
func Uses(path string, info fs.FileInfo) bool {
	owner := OwnerOf(info)
	if owner.User == thisUser {
		return true
	}
	if thisUser != 0 {
		return false
	}
	dir, err := os.Stat(filepath.Dir(path))
	return err == nil && OwnerOf(dir).User == owner.User && aloneWrites(dir)
}

// File is [Dir] for the directory of a file that is to be read or replaced, and checks the file itself. It
// may be missing. In a directory to which others can write it must be a regular file that is ours or
// root's; elsewhere only a link must be.
func File(path string) error {
	dir := filepath.Dir(path)
	if err := Dir(dir); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	link := info.Mode()&fs.ModeSymlink != 0
	if ours := Ours(OwnerOf(info)); ours && !link {
		return nil
	} else if in, err := os.Stat(dir); err != nil {
		return err
	} else if !aloneWrites(in) {
		if link {
			return fmt.Errorf("%s is a link in a directory that others can write to: use the path it leads to", path)
		}
		return fmt.Errorf("%s belongs to user %d, and others than this user (%d) can write to its directory: remove it, or use another directory", path, OwnerOf(info).User, thisUser)
	}
	if link {
		return Dir(path)
	}
	return nil
}

// Peer returns an error if a process of another user, who is not root, listens on a socket, unless nobody else can put a
// socket there: from the socket's directory up, each one is only that user's to write to, until one that is only
// ours or root's.
func Peer(socket string, user int) error {
	if Ours(Owner{User: user}) {
		return nil
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(socket))
	for ; err == nil; dir = filepath.Dir(dir) {
		var info fs.FileInfo
		if info, err = os.Stat(dir); err != nil {
			break
		}
		owner := OwnerOf(info)
		if aloneWrites(info) && (Ours(owner) || dir == "/") {
			return nil
		}
		if !aloneWrites(info) || owner.User != user {
			return fmt.Errorf("user %d listens on socket %s, this is user %d, and others can write to %s: run the proxy as this user or root, or put its socket into a directory that only user %[1]d can write to",
				user, filepath.Base(socket), thisUser, dir)
		}
	}
	return err
}

// walker follows a path, link by link.
type walker struct {
	adopts bool  // it may lead through directories and links of one other user
	other  Owner // that user; zero: none yet
	links  int
	risk
}

// mostLinks is how many links a path may have, as on Linux.
const mostLinks = 40

// directories are those that were found to be good, by their paths: a process asks often, and only root or
// their owner can have changed them since.
var directories sync.Map // of directory

type directory struct {
	real  string // the path without links
	other Owner  // as walker.other
	risk
}

// risk says what others can do to the last part of a path.
type risk struct {
	loose bool // they can put something in the place of this or another part
	crowd bool // they can put something in the place of what is in it, whoever that belongs to
}

// walk checks each part of a path.
func walk(path string, adopts bool) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	d, err := at(path, adopts)
	if err != nil || !d.loose {
		return err
	}
	above, err := at(filepath.Dir(path), adopts)
	if err != nil || above.real == "" {
		return err
	}
	_, err = above.find(filepath.Base(path), adopts) // each time: it may be another by now
	return err
}

// at returns what is known of a directory, which is looked up in its parent the first time. If it is missing,
// its real path is "".
func at(path string, adopts bool) (d directory, err error) {
	if path == "/" {
		return directory{real: path}, nil
	}
	if known, found := directories.Load(path); found && (adopts || known.(directory).other.User == 0) {
		return known.(directory), nil
	}
	if d, err = at(filepath.Dir(path), adopts); err != nil || d.real == "" {
		return d, err
	}
	if d, err = d.find(filepath.Base(path), adopts); err == nil && d.real != "" {
		directories.Store(path, d)
	}
	return d, err
}

// find looks up what is in a directory.
func (d directory) find(name string, adopts bool) (directory, error) {
	w := &walker{adopts: adopts, other: d.other, risk: d.risk}
	real, err := w.follow(d.real, name)
	return directory{real, w.other, w.risk}, err
}

// follow checks each part of a path that begins in the directory real, whose own parts are checked and no
// links. It returns where the path leads; "" if that is missing.
func (w *walker) follow(real, path string) (string, error) {
	for path != "" {
		var part string
		part, path, _ = strings.Cut(path, "/")
		switch part {
		case "", ".":
			continue
		case "..": // of a link
			real, w.loose = filepath.Dir(real), true // as far as is known here
			continue
		}
		at := strings.TrimSuffix(real, "/") + "/" + part
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		} else if err != nil {
			return "", err
		}
		if err := w.check(at, info); err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = at
			continue
		}
		to, err := os.Readlink(at)
		if err != nil {
			return "", err
		}
		if w.links++; w.links > mostLinks {
			return "", &fs.PathError{Op: "follow", Path: at, Err: syscall.ELOOP}
		}
		if filepath.IsAbs(to) {
			real, w.crowd = "/", false
		}
		path = to + "/" + path
	}
	return real, nil
}

// check refuses a part of a path that is neither ours nor root's, nor the other user's.
func (w *walker) check(path string, info fs.FileInfo) error {
	owner := OwnerOf(info)
	w.loose = w.loose || w.crowd || !Ours(owner)
	if info.IsDir() {
		w.crowd = !aloneWrites(info) && info.Mode()&fs.ModeSticky == 0
	}
	if Ours(owner) {
		return nil
	}
	if !w.adopts {
		return fmt.Errorf("%s belongs to user %d, and this is user %d: use a path whose parts are all yours or root's, or run as user %d", path, owner.User, thisUser, owner.User)
	}
	if w.other.User != 0 && w.other.User != owner.User {
		return fmt.Errorf("%s belongs to user %d, and a directory above it to user %d: use a path of one user", path, owner.User, w.other.User)
	}
	if info.IsDir() && !aloneWrites(info) {
		return fmt.Errorf("%s belongs to user %d, and others can write to it: chmod 755 it, or run as user %d, or use another directory", path, owner.User, owner.User)
	}
	w.other = owner
	return nil
}

// aloneWrites reports whether only its owner may write to a directory. A group with the number of the owner
// is the owner's own, as systems make one for each user.
func aloneWrites(info fs.FileInfo) bool {
	owner, perm := OwnerOf(info), info.Mode().Perm()
	return perm&0o002 == 0 && (perm&0o020 == 0 || owner.Group == owner.User)
}

// Ours reports whether what has this owner is this user's or root's.
func Ours(o Owner) bool {
	return o.User == thisUser || o.User == 0 || o.User == overflowUser && unmapped()
}
