package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/cmd/leasectl/console"
	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
)

// A server whose full stderr nobody reads serves on. It drops lines, and says how many when
// somebody reads again. The other lines keep their order.
func TestServeWithAFullStderr(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	r, w := clitest.NewPipe(t)
	cmd := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--pool", "q=1")
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(r)
	url := ""
	for url == "" && lines.Scan() {
		url = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(lines.Text())
	}
	address := strings.TrimPrefix(url, "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := func(target, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", target, address, len(body), body)
	}
	// Long owners make more text than a pipe and the queue hold. No request waits for the answer
	// to the one before.
	const pairs = console.LogSize/2 + 500
	pair := request(wiretest.Target(leaseapi.PathAcquire+"?type=q&owner="+strings.Repeat("x", 500)), "") + request(leaseapi.PathRelease, `{"names":["q-0"]}`)
	go func() {
		for range pairs {
			io.WriteString(conn, pair)
		}
	}()
	answers := bufio.NewReader(conn)
	for range 2 * pairs {
		conn.SetReadDeadline(time.Now().Add(clitest.Patience))
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode >= 300 {
			t.Fatalf("%s, %v", resp.Status, err)
		}
	}

	client := &http.Client{Timeout: clitest.Patience}
	if text := metricsOf(t, client, url); !regexp.MustCompile(`(?m)^leasectl_log_lines_dropped_total [1-9]`).MatchString(text) {
		t.Errorf("it does not count the lines that it dropped\n%s", text)
	}
	dropped := make(chan string, 1)
	read := make(chan int, 1)
	go func() {
		n, last := 0, ""
		for lines.Scan() {
			line := lines.Text()
			if strings.Contains(line, "lines were dropped here") {
				dropped <- line
				break
			}
			n++
			what := regexp.MustCompile(`msg=(granted|released)`).FindString(line)
			if what == "" {
				continue // a line about its start
			}
			if what == last {
				t.Errorf("two lines of %s: their order is lost", what)
			}
			last = what
		}
		read <- n
		for lines.Scan() {
		}
	}()
	select {
	case line := <-dropped:
		if n := <-read; n < console.LogSize {
			t.Errorf("%d lines, and then %q", n, line)
		}
	case <-time.After(clitest.Patience):
		t.Error("it does not say that lines were dropped")
	}
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
}

// metricsOf returns the metrics of a server.
func metricsOf(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	resp, err := client.Get(url + leaseapi.PathMetrics)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Without tokens a server on loopback answers only to its own names and those of --host.
func TestServeHosts(t *testing.T) {
	s := startServer(t, clitest.Build(t, ""), "", "--host", "leases.test,Other.test", "--host", "third.test")
	for host, want := range map[string]int{
		"leases.test": 200, "other.test": 200, "third.test:80": 200, "localhost": 200, "evil.test": 403, "test": 403,
	} {
		r, err := http.NewRequest(http.MethodGet, s.url+leaseapi.PathPools, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", host, resp.Status, want)
		}
	}
}

// More idle clients than descriptors do not keep other clients out.
func TestServeWithFewDescriptors(t *testing.T) {
	s := startServer(t, clitest.Build(t, ""), "ulimit -n 64")
	address := strings.TrimPrefix(s.url, "http://")
	for range 200 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: clitest.Patience}
	for range 20 {
		for target, body := range map[string]string{leaseapi.PathAcquire: `{"type":"q","wait":"0s","request_id":"x"}`, leaseapi.PathRelease: `{"names":["q-0"]}`} {
			resp, err := client.Post(s.url+target, "", strings.NewReader(body))
			if err != nil {
				t.Fatalf("%v\n%s", err, s.log)
			}
			resp.Body.Close()
		}
	}
	if text := metricsOf(t, client, s.url); !regexp.MustCompile(`(?m)^leasectl_connections_closed_total{which="idle"} [1-9]`).MatchString(text) {
		t.Errorf("it does not count the connections that it closed\n%s", text)
	}
	if text := s.log.String(); strings.Contains(text, "too many open files") {
		t.Errorf("it ran out of descriptors\n%s", text)
	}
}
