// Command floor is the least that a Go program can do for a lease: it acquires one with
// net/http, runs a command, and releases the lease. It has no retry, no renewal, no handle, no
// signal handling. leasectl exec is measured against it.
//
//	floor URL TYPE COMMAND [ARG…]
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(proxy, typ string, args []string) error {
	names, err := post(proxy+"/lease/acquire?type="+url.QueryEscape(typ), nil)
	if err != nil {
		return err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	ran := cmd.Run()
	if _, err := post(proxy+"/lease/release", names); err != nil {
		return err
	}
	return ran
}

// names is the body of both calls.
type names struct {
	Names []string `json:"names"`
}

func post(url string, body *names) (*names, error) {
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body)
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusNoContent:
		return nil, nil
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	}
	got := new(names)
	return got, json.Unmarshal(text, got)
}
