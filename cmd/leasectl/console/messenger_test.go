package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// Messages are written in the order in which they were queued, and all before close returns.
func TestMessengerOrder(t *testing.T) {
	t.Parallel()
	r, w := clitest.NewPipe(t)
	m := New(w)
	var want strings.Builder
	for i := range queueSize / 2 {
		m.Say(fmt.Sprint("line ", i))
		fmt.Fprintln(&want, "line", i)
	}
	idle(t, m)
	m.Say("last")
	fmt.Fprintln(&want, "last")
	m.Close()
	m.Say("too late")
	m.Close() // a second close does nothing
	w.Close()
	if got, _ := io.ReadAll(r); string(got) != want.String() {
		t.Errorf("got %q, want %q", got, want.String())
	}
}

// flush returns when the messages before it are written.
func TestMessengerFlush(t *testing.T) {
	t.Parallel()
	r, w := clitest.NewPipe(t)
	m := New(w)
	defer m.Close()
	var want string
	for took := flushTime; took >= flushTime; { // flush gave up, since the machine is busy
		want += "before\n"
		m.Say("before")
		start := time.Now()
		m.Flush()
		took = time.Since(start)
	}
	raw, err := r.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1<<16)
	raw.Read(func(fd uintptr) bool { // does not block
		n, _ := syscall.Read(int(fd), got)
		got = got[:max(n, 0)]
		return true
	})
	if string(got) != want {
		t.Errorf("after flush %q is there, want %q", got, want)
	}
}

// say does not wait for a reader, and flush waits only for flushTime. Messages that do not Fit are
// dropped, and a line in their place says how many of them were lines.
func TestMessengerDrops(t *testing.T) {
	t.Parallel()
	r, w := clitest.NewPipe(t)
	m := New(w)
	line := strings.Repeat("x", 1<<10) // some 64 lines fill the pipe
	const lines = 2*queueSize + 10
	inTime(t, "say and flush", func() {
		for range lines {
			m.Say(line)
		}
		m.Show("no line")
		m.Flush()
	})
	text := make(chan string, 1)
	go func() {
		got, _ := io.ReadAll(r)
		text <- string(got)
	}()
	idle(t, m)
	m.Say("next")
	idle(t, m)
	inTime(t, "close", m.Close)
	w.Close()
	got := <-text
	written, dropped := strings.Count(got, line+"\n"), 0
	for l := range strings.Lines(got) {
		var n int
		if _, err := fmt.Sscanf(l, "leasectl: %d lines were dropped here", &n); err == nil {
			dropped += n
		}
	}
	if dropped == 0 || written+dropped != lines || m.DroppedLines() != dropped || !strings.HasSuffix(got, "here: nobody read stderr\nnext\n") {
		t.Errorf("of %d lines %d are written and %d dropped; the end is %q", lines, written, dropped, got[max(0, len(got)-80):])
	}
}

// A line in the log's format says how many lines of a log were dropped, in their place.
func TestMessengerDropsLogLines(t *testing.T) {
	t.Parallel()
	r, w := clitest.NewPipe(t)
	m := New(w)
	log := slog.New(NewLogHandler(m, func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) }))
	const lines = LogSize + 1000
	for i := range lines {
		log.With("line", i).Info(strings.Repeat("x", 200)) // fills the pipe
	}
	text := make(chan []byte, 1)
	go func() {
		got, _ := io.ReadAll(r)
		text <- got
	}()
	idle(t, m)
	inTime(t, "close", m.Close)
	w.Close()
	written, dropped := 0, 0
	for d := json.NewDecoder(bytes.NewReader(<-text)); d.More(); {
		var l struct {
			Msg         string
			Line, Lines int
		}
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		switch {
		case l.Lines > 0:
			dropped += l.Lines
		case l.Line != written:
			t.Fatalf("line %d, want %d", l.Line, written)
		default:
			written++
		}
	}
	if dropped == 0 || written+dropped != lines || m.DroppedLines() != dropped {
		t.Errorf("of %d lines %d are written, %d said to be dropped, %d counted", lines, written, dropped, m.DroppedLines())
	}
}

// Lines that cannot be written, as on a full disk or to a reader that is gone, are lost and
// counted.
func TestMessengerCountsWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	r, w := clitest.NewPipe(t)
	r.Close()
	m := New(w)
	log := slog.New(NewLogHandler(m, func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) }))
	for range 3 {
		log.Info("a line")
	}
	idle(t, m)
	if n := m.DroppedLines(); n != 3 {
		t.Errorf("%d lines are counted", n)
	}
}

// idle returns when all messages of m are written. close alone would wait for a second, which may
// be too short on a busy machine.
func idle(t *testing.T, m *Messenger) {
	t.Helper()
	inTime(t, "what was said", func() {
		for left := 1; left > 0; time.Sleep(time.Millisecond) {
			m.mu.Lock()
			left = len(m.queue) + m.writing
			m.mu.Unlock()
		}
		written := make(chan struct{})
		m.send(message{written: written}) // the queue has room now
		<-written
	})
}

// close gives a busy reader closeTime, and no more.
func TestMessengerClosesUnread(t *testing.T) {
	t.Parallel()
	r, w := clitest.NewPipe(t)
	defer r.Close() // ends the write
	m := New(w)
	for range queueSize + 1 {
		m.Say(strings.Repeat("x", 1<<16))
	}
	inTime(t, "close", m.Close)
}

// inTime fails the test if f takes long.
func inTime(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s: it waits for a reader", what)
	}
}
