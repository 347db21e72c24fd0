package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leasectl/leasectl/internal/proxyserver/auth/authtest"
)

// issuers are the issuers of the scenarios that run, by their directories.
var issuers sync.Map

// scriptIssuer is the issuer of a scenario, and the key that it signs with.
type scriptIssuer struct {
	*authtest.Issuer
	key authtest.Key
}

// startIssuer starts an issuer of tokens for the rest of a scenario, or changes it:
//
//	issuer              starts it, with its URL in $ISSUER
//	issuer down         it answers with errors only; up: no more
func startIssuer(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.Getenv("WORK")
	switch i, ok := issuers.Load(dir); {
	case neg || len(args) > 1:
		ts.Fatalf("usage: issuer [up|down]")
	case len(args) == 0 && !ok:
		served, stop := authtest.Serve()
		key, err := authtest.GenerateKey("of-the-scenario")
		ts.Check(err)
		served.Publish(key)
		issuers.Store(dir, &scriptIssuer{served, key})
		ts.Defer(func() { stop(); issuers.Delete(dir) })
		ts.Setenv("ISSUER", served.URL)
	case len(args) == 1 && args[0] == "down":
		i.(*scriptIssuer).Answer(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusBadGateway) })
	case len(args) == 1 && args[0] == "up":
		i.(*scriptIssuer).Answer(nil)
	default:
		ts.Fatalf("usage: issuer [up|down]")
	}
}

// mintToken replaces a file by one with a token of the scenario's issuer, which ends after a time
// and has claims:
//
//	mint FILE 5m repository=acme/app
func mintToken(ts *testscript.TestScript, neg bool, args []string) {
	i, ok := issuers.Load(ts.Getenv("WORK"))
	if neg || !ok || len(args) < 2 {
		ts.Fatalf("usage: mint FILE DURATION [CLAIM=TEXT…], after issuer")
	}
	lasts, err := time.ParseDuration(args[1])
	ts.Check(err)
	ends := time.Now().Add(lasts)
	claims := map[string]any{"exp": ends.Unix(), "iat": ends.Add(-max(lasts, 5*time.Minute)).Unix(), "nbf": nil}
	for _, arg := range args[2:] {
		name, text, _ := strings.Cut(arg, "=")
		claims[name] = text
	}
	issuer := i.(*scriptIssuer)
	token, err := issuer.key.Token(issuer.Claims(claims))
	ts.Check(err)
	file := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(file+".new", []byte(token+"\n"), 0o600))
	ts.Check(os.Rename(file+".new", filepath.Clean(file)))
}
