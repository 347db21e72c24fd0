package main

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
)

// What is asked of Redis, and what its answers mean.
func TestRedis(t *testing.T) {
	for _, c := range []struct {
		name, answers, fails string
	}{
		{"a pair", "+OK\r\n:1\r\n", ""},
		{"somebody has the lock", "$-1\r\n", `SET NX answered ""`},
		{"the lock was dropped", "+OK\r\n:0\r\n", `the script answered "0"`},
		{"another string", "$5\r\nother\r\n", `SET NX answered "other"`},
		{"an error", "-NOSCRIPT No matching script.\r\n", "redis: NOSCRIPT No matching script."},
		{"another protocol", "HTTP/1.1 400 Bad Request\r\n", `answer "HTTP/1.1 400 Bad Request\r\n"`},
		{"it ends", "+OK\r\n", "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ours, its := net.Pipe()
			asked := make(chan string, 1)
			go func() {
				text, _ := io.ReadAll(its)
				asked <- string(text)
			}()
			// What is sent goes to the pipe, and the answers are there from the beginning.
			err := redisPair(&wire{conn: ours, r: bufio.NewReader(strings.NewReader(c.answers))}, 7)
			ours.Close()
			if got := <-asked; !strings.HasPrefix(got, "*6\r\n$3\r\nSET\r\n$7\r\nlease-7\r\n$7\r\nowner-7\r\n$2\r\nNX\r\n$2\r\nPX\r\n") {
				t.Errorf("it was asked %q", got)
			}
			switch {
			case c.fails == "" && err != nil:
				t.Error(err)
			case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
				t.Errorf("the pair: %v, want %s", err, c.fails)
			}
		})
	}
}
