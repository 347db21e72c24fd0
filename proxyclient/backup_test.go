package proxyclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// copies answers each call that has the token with a copy; with an empty token every call.
func copies(token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(aCopy)))
		io.WriteString(w, aCopy)
	})
}

const aCopy = "a copy of the store"

// A backup goes on while bytes of it arrive, and ends after a minute without any: before,
// it hung with a stopped proxy. It is retried only until the first byte has arrived.
func TestBackup(t *testing.T) {
	const almost = backupSilence - time.Second
	trickle := fault{cut: dripping, done: true, delay: almost}
	for _, tt := range []struct {
		name   string
		faults []fault
		takes  time.Duration // about
		fails  string        // the error begins with it; empty: there is none
	}{
		{"at once", []fault{{}}, 0, ""},
		{"byte by byte", []fault{trickle}, time.Duration(len(aCopy)+1) * almost, ""},
		{"after failures on the way", []fault{dialRefused, resetInside, badGateway}, 500 * time.Millisecond, ""},
		{"no answer", []fault{hanging}, backupSilence, "backup: lease proxy does not answer: http://proxy.test: no answer for 1m"},
		{"nobody", slices.Repeat([]fault{dialRefused}, 100), maxRefused, "backup: lease proxy does not answer: http://proxy.test: dial mem: connection refused"},
		{"silent in the middle", []fault{stalledAnswer}, backupSilence, "backup: lease proxy does not answer: http://proxy.test: silent for 1m after 9 bytes of the copy"},
		{"broken in the middle", []fault{halfAnAnswer}, 0, "backup: lease proxy does not answer: http://proxy.test: unexpected EOF after 9 bytes of the copy"},
		{"the proxy cannot", []fault{status(500)}, 0, "backup: the proxy answered 500 Internal Server Error: no"},
		{"no copy", []fault{htmlPage}, 0, "backup: the proxy answered 200 OK: an HTML or XML page"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			c, _ := serve(t, copies(""), tt.faults...)
			begun := time.Now()
			var got bytes.Buffer
			size, err := c.Backup(t.Context(), &got)
			if took := time.Since(begun); took < tt.takes/2 || took > 2*tt.takes {
				t.Errorf("took %s, want %s", took, tt.takes)
			}
			switch {
			case tt.fails == "":
				want(t, err)
				if got.String() != aCopy || size != int64(len(aCopy)) {
					t.Errorf("got %d bytes: %q", size, &got)
				}
			case err == nil || !strings.HasPrefix(err.Error(), tt.fails):
				t.Errorf("error %v, want %s", err, tt.fails)
			case strings.Contains(tt.fails, ErrUnreachable.Error()):
				want(t, err, ErrUnreachable)
			}
		})
	}
}

// The end of its context ends a backup at once, even in the middle. Neither this nor a
// copy that cannot be written is reported as silence of the proxy.
func TestBackupEndsHere(t *testing.T) {
	for _, f := range []fault{hanging, stalledAnswer} {
		bubble(t, "context", func(t *testing.T) {
			c, _ := serve(t, copies(""), f)
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := errors.New("stopped")
			time.AfterFunc(time.Second, func() { cancel(stop) })
			begun := time.Now()
			_, err := c.Backup(ctx, io.Discard)
			want(t, err, stop)
			if took := time.Since(begun); took != time.Second || errors.Is(err, ErrUnreachable) {
				t.Errorf("%v after %s", err, took)
			}
		})
	}
	bubble(t, "disk", func(t *testing.T) {
		c, _ := serve(t, copies(""))
		out, in := io.Pipe()
		out.CloseWithError(os.ErrPermission)
		_, err := c.Backup(t.Context(), in)
		want(t, err, os.ErrPermission)
		if errors.Is(err, ErrUnreachable) {
			t.Error(err)
		}
	})
}

// A backup asks the leader of a list, with the token that its file has now. Before, it
// asked the first server of the list, with the old token.
func TestBackupAsOtherCalls(t *testing.T) {
	bubble(t, "leader", func(t *testing.T) {
		c, g := newGroup(t, "c.test")
		g.backup = copies("")
		_, err := c.Backup(t.Context(), io.Discard)
		want(t, err)
		if asked := g.hosts(); asked[len(asked)-1] != "c.test" {
			t.Errorf("asked %v", asked)
		}
	})
	t.Run("token", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte("the-second-token\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _ := serve(t, copies("the-second-token"))
		c.file.opened(file, "the-first-token")
		_, err := c.Backup(t.Context(), io.Discard)
		want(t, err)
		if err := os.WriteFile(file, []byte("another-token\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c.file.token = "another-token"
		_, err = c.Backup(t.Context(), io.Discard)
		if text := "backup: the proxy http://proxy.test refused the token of " + file; err == nil || !strings.HasPrefix(err.Error(), text) {
			t.Errorf("error %v, want %s", err, text)
		}
	})
}

// A copy without a length, such as a gateway's that died in the middle, would look whole. One that is
// empty, or too long for a store, is none.
func TestBackupLength(t *testing.T) {
	for length, text := range map[string]string{
		"":                "does not say how long the copy is",
		"0":               "says that the copy has 0 bytes",
		"999999999999999": "says that the copy has 999999999999999 bytes",
	} {
		t.Run("length "+length, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/octet-stream")
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				w.(http.Flusher).Flush()
				if length != "0" {
					io.WriteString(w, aCopy)
				}
			}))
			defer server.Close()
			c, err := New(Options{URL: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var got bytes.Buffer
			size, err := c.Backup(t.Context(), &got)
			if err == nil || !strings.Contains(err.Error(), text) || size != 0 || got.Len() != 0 {
				t.Errorf("%d bytes, %q, %v", size, &got, err)
			}
		})
	}
}
