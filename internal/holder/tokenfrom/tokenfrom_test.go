package tokenfrom

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// GitHub's runner is asked as its documentation says, again if it fails, and not for ever.
func TestRunner(t *testing.T) {
	var asked atomic.Int64
	answer := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"count":1,"value":"a-token"}`) }
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Method != "GET" || r.Header.Get("Authorization") != "Bearer runner-secret" || r.URL.Query().Get("api-version") != "2.0" {
			t.Errorf("asked %s %s %v", r.Method, r.URL, r.Header)
		}
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	}))
	defer srv.Close()
	t.Setenv(GitHubURL, srv.URL+"/token?api-version=2.0&secret=hidden")
	t.Setenv(GitHubToken, "runner-secret")
	get := func(from string) (string, error) {
		s, err := New(from)
		if err != nil {
			t.Fatal(err)
		}
		return s.Token(t.Context())
	}
	for from, audience := range map[string]string{"github": "leasectl", "github:https://leases.example": "https://leases.example"} {
		answer = func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"value":%q}`, "for:"+r.URL.Query().Get("audience"))
		}
		if token, err := get(from); token != "for:"+audience || err != nil {
			t.Errorf("%s: %q, %v", from, token, err)
		}
	}
	asked.Store(0)
	answer = func(w http.ResponseWriter, r *http.Request) {
		if asked.Load() < 3 {
			http.Error(w, "", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"value":"third"}`)
	}
	if token, err := get("github"); token != "third" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
	for text, want := range map[string]string{`{}`: "the runner's answer has no token", `<html>`: "the runner's answer has no token", "": "the runner's answer has no token"} {
		answer = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
		if _, err := get("github"); err == nil || err.Error() != "--token-from github: "+want {
			t.Errorf("%q: %v", text, err)
		}
	}
	asked.Store(0)
	answer = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusForbidden) }
	if _, err := get("github"); err == nil || !strings.Contains(err.Error(), "403") || asked.Load() != 1 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
	answer = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
	}
	if _, err := get("github"); err == nil || !strings.Contains(err.Error(), "302") {
		t.Error(err)
	}
	srv.Close()
	if _, err := get("github"); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("the runner is gone: %v", err)
	}
	t.Setenv(GitHubToken, "")
	if _, err := New("github"); err == nil || !strings.Contains(err.Error(), "id-token: write") {
		t.Errorf("without the permission: %v", err)
	}
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(Variable, "would-run-again")
	t.Setenv("OTHER", "stays")
	s, err := New(`echo "$OTHER-$` + Variable + `-x" | tee '` + filepath.Join(dir, "seen") + `'`)
	if err != nil {
		t.Fatal(err)
	}
	if token, err := s.Token(t.Context()); token != "stays--x" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
	if err := os.Remove(filepath.Join(dir, "seen")); err != nil {
		t.Fatal(err)
	}
	if token, err := s.Token(t.Context()); token != "stays--x" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "seen")); err == nil {
		t.Error("it runs for each call")
	}
	for script, want := range map[string]string{
		"exit 4": "the command of --token-from: exit status 4", "true": "the command of --token-from: it gave no token",
		"echo a b":  "the command of --token-from: the token holds white space or characters outside printable ASCII",
		"github: x": "the command of --token-from: exit status 127",
	} {
		s, err := New(script)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Token(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", script, err, want)
		}
	}
}
