// Command vuln looks for known vulnerabilities in what leasectl calls: it runs
// govulncheck, which govulncheck.mod pins. Where the database cannot be reached it says
// so in a line, and is content: a machine without a way out can check everything else.
//
//	go run ./scripts/vuln [-db URL]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	reachTimeout = 10 * time.Second // for the first answer of the database
	checkTimeout = 10 * time.Minute // half a minute is usual, with the tool's build
)

func main() {
	db := flag.String("db", "https://vuln.go.dev", "the database, a URL of https or file; see https://go.dev/doc/security/vuln/database")
	flag.Parse()
	if err := reach(*db); err != nil {
		fmt.Printf("vuln: not checked, the database cannot be reached: %v\n", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	if err := check(ctx, os.Stdout, *db, "./..."); err != nil {
		fmt.Fprintln(os.Stderr, "vuln:", err)
		os.Exit(1)
	}
}

// reach asks the database when it was changed last.
func reach(db string) error {
	if strings.HasPrefix(db, "file:") {
		return nil
	}
	client := http.Client{Timeout: reachTimeout}
	resp, err := client.Get(db + "/index/db.json")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Request.URL, resp.Status)
	}
	return nil
}

// check runs govulncheck in the top directory of the tree. A vulnerability that may be
// met is an error; what it is, is printed.
func check(ctx context.Context, stdout io.Writer, db, packages string) error {
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile=scripts/vuln/govulncheck.mod", "govulncheck", "-db", db, packages)
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("govulncheck: %w", err)
	}
	return nil
}
