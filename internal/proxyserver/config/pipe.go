package config

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// Pipes reads the pipes among files, and waits for them as [Start] does. It returns a function
// that reads any of files without blocking: a pipe from memory, any other file anew.
func Pipes(ctx context.Context, files []string, warn func(Warning)) (readFile func(file string) ([]byte, error), err error) {
	kept := make(map[string][]byte)
	for _, file := range files {
		if _, known := kept[file]; known || !isPipe(file) {
			continue
		}
		if kept[file], err = readPipe(ctx, file, warn); err != nil {
			return nil, err
		}
	}
	return func(file string) ([]byte, error) {
		if text, ok := kept[file]; ok {
			return text, nil
		}
		return readAgain(file)
	}, nil
}

// isPipe reports whether file exists, and is neither a regular file nor a directory.
func isPipe(file string) bool {
	info, err := os.Stat(file)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// pipeWait is how long a pipe may stay open before a warning: longer than a program takes to
// write it.
const pipeWait = 3 * time.Second

// readPipe reads a pipe to its end. Only ctx bounds how long it waits.
func readPipe(ctx context.Context, file string, warn func(Warning)) ([]byte, error) {
	type content struct {
		text []byte
		err  error
	}
	whole := make(chan content, 1)
	go func() { // if nobody opens the pipe to write, this goroutine ends with the program
		text, err := readFile(file)
		whole <- content{text, err}
	}()
	slow := time.NewTimer(pipeWait)
	defer slow.Stop()
	for {
		select {
		case c := <-whole:
			return c.text, c.err
		case <-slow.C:
			warn(Warning{File: file, Text: "it is a pipe, and nobody has written and closed it yet: nothing is served before"})
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// readAgain reads a regular file. If a pipe has taken its place, readAgain fails and does not
// block.
func readAgain(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil, fmt.Errorf("%s is no file any more, but a pipe or the like", file)
	}
	return readAll(f)
}

// mostBytes is how long a file may be: pools of some 100,000 long names have less.
const mostBytes = 64 << 20

// readFile is [os.ReadFile] for files of at most mostBytes.
func readFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

func readAll(f *os.File) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	if err == nil && len(text) > mostBytes {
		return nil, fmt.Errorf("%s has more than %d MiB: it is no file of settings", f.Name(), mostBytes>>20)
	}
	return text, err
}
