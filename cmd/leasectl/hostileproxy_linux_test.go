package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
)

// Whatever a proxy answers, a client ends; it does not end with 0 without having run its command, runs
// nothing without a lease, prints no control character, stays small, and sends its token to nobody else.
func TestHostileProxy(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	// Not subtests: most of the time a client waits, as for a better answer, and many cost no more than one.
	var all sync.WaitGroup
	places := make(chan struct{}, 64)
	client, drawn := clientSh(t), rand.New(rand.NewPCG(1, 2))
	for _, l := range lies() {
		for _, commands := range l.draw(drawn, client) {
			h := newHostile(t, program, l)
			all.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				for i, command := range commands {
					h.honest.Store(i < len(commands)-2) // the commands before make a handle
					h.run(command)
				}
			})
		}
	}
	all.Wait()
}

// lie is a way to answer calls.
type lie struct {
	name   string
	answer func(w http.ResponseWriter, r *http.Request, thief string)
	honest bool // the acquire is answered well, and only what follows is a lie
}

func said(status int, contentType, body string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, thief string) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Location", thief+"/lease/acquire")
		w.Header().Set("Retry-After", "31536000")
		w.Header().Set("Leasectl-Store", "\u202e[2J")
		w.WriteHeader(status)
		io.WriteString(w, strings.NewReplacer("THIEF", thief, "REQUEST", wiretest.Asked(r).RequestID).Replace(body))
	}
}

// lies are the answers: each problem with each number and text, redirects, grants, and bodies that do not end.
func lies() (all []lie) {
	add := func(name string, answer func(http.ResponseWriter, *http.Request, string)) {
		all = append(all, lie{name: name, answer: answer}, lie{name: "then " + name, answer: answer, honest: true})
	}
	problems := []string{
		leaseapi.ProblemCoalesced, leaseapi.ProblemSuperseded, leaseapi.ProblemEnded, leaseapi.ProblemRemoved, leaseapi.ProblemUnknownName,
		leaseapi.ProblemNotLeader, leaseapi.ProblemForbidden, leaseapi.ProblemExhausted, leaseapi.ProblemQueueFull, leaseapi.ProblemUnavailable,
		"urn:leasectl:problem:never-heard-of",
	}
	numbers := []string{"0", "-1", "256", "9223372036854775807"}
	for i, p := range problems {
		for j, status := range []int{410, 503} {
			n := numbers[(i+j)%len(numbers)]
			add(fmt.Sprint(p[len("urn:leasectl:problem:"):], " ", status), said(status, leaseapi.ContentTypeProblem,
				fmt.Sprintf(`{"type":%q,"title":"a\u001b[2J\u202eb","detail":"c\u0007\u009bd\ne","exit_code":%s,"leader":"THIEF","reason":"\u001b]0;x\u0007"}`, p, n)))
		}
	}
	for _, status := range []int{101, 204, 301, 307, 308, 401, 404, 418, 500} {
		add(fmt.Sprint("status ", status), said(status, "text/plain", "text \x1b[31m\u202e"))
	}
	for _, name := range []string{"..", "-rf", "a,b", "\u202ea", "a\x1b[2J", "../x", ""} {
		quoted, _ := json.Marshal(name)
		add(fmt.Sprintf("grant of %q", name), said(200, "application/json", fmt.Sprintf(
			`{"names":[%[1]s],"leases":[{"name":%[1]s,"generation":1}],"request_id":"REQUEST","ttl":"5m","renew_every":"1m","released":[%[1]s],"stale":[{"name":%[1]s,"reason":"\u001b[2J"}]}`, quoted)))
	}
	add("another's grant", said(200, "application/json", `{"names":["a"],"leases":[{"name":"a","generation":1}],"request_id":"other","ttl":"5m"}`))
	for _, number := range []string{"1e309", "-1", "NaN", "18446744073709551616", `"x"`, "0"} {
		add("generation "+number, said(200, "application/json", `{"names":["a","b"],"leases":[{"name":"a","generation":`+number+`}],"request_id":"REQUEST","ttl":"5m"}`))
	}
	for _, ttl := range []string{"0s", "-5m"} {
		add("ttl "+ttl, said(200, "application/json", `{"names":["a"],"leases":[{"name":"a","generation":1}],"request_id":"REQUEST","ttl":"`+ttl+`","renew_every":"1ns"}`))
	}
	const text = `a\u001b[2J\u202e\u009bb`
	add("texts in lists", said(200, "application/json", `{"names":null,"leader":{"url":"`+text+`","name":"`+text+`"},"name":"`+text+`","issuer":"`+text+`","role":"`+text+`","pools":[{
		"type":"`+text+`","unit":"`+text+`","state":"`+text+`","capacity":1,"in_use":1,"paused":{"reason":"`+text+`","by":"`+text+`"},
		"leases":[{"name":"`+text+`","owner":"`+text+`","token":"`+text+`","key":"`+text+`","broken":"`+text+`","generation":1}],
		"waiters":[{"owner":"`+text+`","token":"`+text+`","key":"`+text+`","reason":{"kind":"reserved","name":"`+text+`","by":"`+text+`","token":"`+text+`","text":"`+text+`","type":"`+text+`"},"request_id":"`+text+`","place":1}]}]}`))
	add("many numbers", said(200, "application/json", `{"names":["a"],"stale":[`+strings.Repeat("0,", 500_000)+`0]}`))
	add("many lost", said(410, leaseapi.ContentTypeProblem, `{"type":"`+leaseapi.ProblemLost+`","lost":[`+strings.Repeat("{},", 300_000)+`{}]}`))
	for _, body := range []string{"", "null", "[]", "{}", `{"`, "<html>\x1b[2J", strings.Repeat("[", 100_000)} {
		add(fmt.Sprintf("body %.9q", body), said(200, "application/json", body))
	}
	all = append(all, lie{name: "a drip", answer: func(w http.ResponseWriter, r *http.Request, _ string) {
		for r.Context().Err() == nil {
			io.WriteString(w, "{")
			w.(http.Flusher).Flush()
			time.Sleep(50 * time.Millisecond)
		}
	}})
	add("a body without end", func(w http.ResponseWriter, r *http.Request, _ string) {
		for part := bytes.Repeat([]byte("\x1b[2J{"), 10_000); r.Context().Err() == nil; {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	add("headers without end", func(w http.ResponseWriter, r *http.Request, _ string) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n")
		for part := []byte("X-A: " + strings.Repeat("a", 10_000) + "\r\n"); ; {
			if _, err := conn.Write(part); err != nil {
				return
			}
		}
	})
	return all
}

const hostileToken = "a-token-that-nobody-else-may-see"

// hostile is a proxy that lies, and a thief that waits for the token.
type hostile struct {
	*world
	t     *testing.T
	lie   lie
	proxy *httptest.Server
	thief *httptest.Server

	honest atomic.Bool // renewals are answered well, too: a handle is made

	mu     sync.Mutex
	stolen string
}

func newHostile(t *testing.T, program string, l lie) *hostile {
	h := &hostile{world: newBareWorld(t, program), t: t, lie: l}
	h.thief = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.stolen += fmt.Sprintf("%s %s, token: %q\n", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	t.Cleanup(h.thief.Close)
	h.proxy = httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	h.proxy.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.proxy.Start()
	t.Cleanup(func() { h.proxy.CloseClientConnections(); h.proxy.Close() })
	token := h.Path("token")
	if err := os.WriteFile(token, []byte(hostileToken), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Env = append(os.Environ(), "LEASECTL_STATE_DIR="+h.Path("state"), "LEASECTL_OWNER=me", "LEASE_PROXY_SERVER_URL="+h.proxy.URL, "LEASECTL_TOKEN_FILE="+token, "SHARED_DIR="+h.Dir, "LEASECTL="+h.Program, "LEASECTL_WAIT_TIMEOUT=1s")
	return h
}

// serve answers a call; the lease that an honest acquire grants is granted by the name alone after it.
func (h *hostile) serve(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	if h.lie.honest && r.URL.Path == leaseapi.PathRenew && h.honest.Load() {
		io.WriteString(w, `{"ttl":"5m","renew_every":"1m"}`)
		return
	}
	if h.lie.honest && r.URL.Path == leaseapi.PathAcquire {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"names":["good"],"leases":[{"name":"good","generation":7}],"request_id":%q,"ttl":"5m","renew_every":"1m"}`, wiretest.Asked(r).RequestID)
		return
	}
	h.lie.answer(w, r, h.thief.URL)
}

// draw returns some of the commands, in turns that each have a proxy of their own: all commands at all
// lies would take minutes. client is the path of client.sh.
func (l lie) draw(drawn *rand.Rand, client string) (turns [][][]string) {
	exec := func(flags ...string) []string {
		return append(append([]string{"leasectl", "exec", "--type", "t", "--wait-timeout", "1s"}, flags...), "--", "touch", "ran")
	}
	acquire := []string{"leasectl", "acquire", "--type", "t", "--wait-timeout", "1s", "--handle", "h"}
	all := [][]string{
		exec("--optional"), exec("--attempts", "2", "--retry-on", "4"), exec("--shared", "s"), acquire,
		{"leasectl", "whoami"}, {"leasectl", "status"}, {"leasectl", "status", "--output", "json"},
		{"leasectl", "break", "good", "--reason", "r"}, {"leasectl", "pause", "t", "--reason", "r"}, {"leasectl", "resume", "t"},
		{"leasectl", "reserve", "good", "--reason", "r"}, {"leasectl", "remove", "id", "--reason", "r"}, {"leasectl", "move", "id", "--priority", "1", "--reason", "r"},
		{"leasectl", "release", "--names", "good"}, {"leasectl", "release", "--all"},
	}
	if l.honest { // so there is a handle
		all = append(all, []string{"leasectl", "renew", "--handle", "h"}, []string{"leasectl", "report", "ok", "--handle", "h"},
			[]string{"leasectl", "status", "--handle", "h"}, []string{"leasectl", "resize", "--handle", "h", "--count", "2"},
			[]string{"leasectl", "reacquire", "--handle", "h", "--wait-timeout", "1s"}, []string{"leasectl", "release", "--handle", "h"})
	}
	turn := [][]string{all[drawn.IntN(len(all))], {"leasectl", "recover"}}
	if l.honest {
		return [][][]string{append([][]string{acquire}, turn...)}
	}
	step := []string{"bash", "-c", `. "$0" && lease__acquire --type=t --scope=test && touch ran; lease__release --scope=test; lease__release --names=good`, client}
	if drawn.IntN(4) == 0 {
		turn = [][]string{step}
	}
	return [][][]string{{exec()}, turn}
}

// run runs a command, and says what it did that it must not.
func (h *hostile) run(args []string) {
	os.Remove(h.Path("ran"))
	ctx, cancel := context.WithTimeout(h.t.Context(), 2*clitest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	if args[0] == "leasectl" {
		cmd = exec.CommandContext(ctx, h.Program, args[1:]...)
	}
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = h.Dir, h.Env, &out, &out
	code := clitest.ExitCode(cmd.Run())
	wrong := func(format string, a ...any) {
		h.t.Errorf("%s: %q: %s: exit code %d\n%.2000q", h.lie.name, args, fmt.Sprintf(format, a...), code, out.String())
	}
	ran, isExec, optional := clitest.Exists(h.Path("ran")), args[1] == "exec", slices.Contains(args, "--optional")
	switch {
	case ctx.Err() != nil:
		wrong("it does not end")
	case isExec && code == 0 && !ran:
		wrong("it ended with 0 without its command")
	case ran && !h.lie.honest && !optional:
		wrong("it ran without a lease")
	}
	if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf) }); i >= 0 {
		wrong("it printed a control character: %.100q", out.String()[i:])
	}
	if strings.Contains(out.String(), hostileToken) {
		wrong("it printed the token")
	}
	// A process that is forked begins with the peak of the one that forks it.
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && usage.Maxrss > max(64<<10, ownPeak()) {
		wrong("it took %d KiB", usage.Maxrss)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stolen != "" {
		wrong("it called another server: %s", h.stolen)
	}
}

// ownPeak returns the peak of the memory of this process, in KiB.
func ownPeak() int64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return usage.Maxrss
}

// clientSh returns the path of client.sh.
func clientSh(t *testing.T) string {
	client, err := filepath.Abs("../../scripts/client.sh")
	if err != nil {
		t.Fatal(err)
	}
	return client
}
