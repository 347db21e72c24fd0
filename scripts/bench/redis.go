package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// redis starts a Redis that has each change on the disk before it answers, as our server does.
func (w *world) redis(ctx context.Context) (*server, error) {
	dir := w.fresh("redis")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(addr, ":")
	s, err := w.launch(ctx, "redis-server", "--bind", host, "--port", port, "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "")
	if err != nil {
		return nil, err
	}
	s.addr = addr
	err = s.ready(ctx, func() (bool, error) {
		c, err := dial(addr)
		if err != nil {
			return false, nil // not yet
		}
		defer c.close()
		answer, err := c.redis("SCRIPT", "LOAD", redisRelease)
		if err == nil && answer != redisReleaseSum {
			err = fmt.Errorf("the sum of the script is %q, want %q", answer, redisReleaseSum)
		}
		return err == nil, err
	})
	if err != nil {
		return nil, s.failed(err)
	}
	return s, nil
}

// redisRelease deletes a lock that is still the caller's.
const redisRelease = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`

var redisReleaseSum = func() string {
	sum := sha1.Sum([]byte(redisRelease))
	return hex.EncodeToString(sum[:])
}()

// redisPair takes and releases a key of its own like a lock: it sets the key if it does not exist,
// with the time after which Redis drops it, and removes it if it still has the value.
func redisPair(c *wire, n int) error {
	key, value := "lease-"+strconv.Itoa(n), "owner-"+strconv.Itoa(n)
	answer, err := c.redis("SET", key, value, "NX", "PX", "600000")
	if err == nil && answer != "OK" {
		err = fmt.Errorf("redis: SET NX answered %q", answer)
	}
	if err != nil {
		return err
	}
	answer, err = c.redis("EVALSHA", redisReleaseSum, "1", key, value)
	if err == nil && answer != "1" {
		err = fmt.Errorf("redis: the script answered %q", answer)
	}
	return err
}

// redis sends a command in Redis's protocol, and returns the answer: a string, or a number in
// digits. An answer of nil is empty.
func (w *wire) redis(command ...string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(command))
	for _, word := range command {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(w.conn, b.String()); err != nil {
		return "", err
	}
	line, err := w.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", errors.New("redis: " + rest)
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", err
		}
		text := make([]byte, n+len("\r\n"))
		if _, err := io.ReadFull(w.r, text); err != nil {
			return "", err
		}
		return string(text[:n]), nil
	}
	return "", fmt.Errorf("redis: answer %q", line)
}
