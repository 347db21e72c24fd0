package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

const bareLogSize = 16 << 20

// bareLog shows what the disk can do: operations are appended to a file that has all its blocks
// already, and synced with fdatasync(2). At the end of the file it begins anew. Nothing could be
// read from that file, and there is no server: only goroutines that wait for the sync.
type bareLog struct {
	file *os.File
	at   int64
}

func newBareLog(dir string) (*bareLog, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	// Blocks that were never written would have to be noted as written at the first sync.
	_, err = f.Write(make([]byte, bareLogSize))
	if err = errors.Join(err, f.Sync()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &bareLog{file: f}, nil
}

// commit makes ops durable.
func (l *bareLog) commit(ops []fencedOp) error {
	var b strings.Builder
	for _, op := range ops {
		b.WriteString(op.key)
		b.WriteString(fencedValue)
	}
	if l.at+int64(b.Len()) > bareLogSize {
		l.at = 0
	}
	n, err := l.file.WriteAt([]byte(b.String()), l.at)
	l.at += int64(n)
	return errors.Join(err, syncData(l.file))
}

func (l *bareLog) close() error { return l.file.Close() }
