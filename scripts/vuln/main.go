// Command vuln looks for known vulnerabilities in the code that leasectl calls: it runs
// govulncheck, which govulncheck.mod pins. If the database cannot be reached, it only prints a
// line and succeeds, so that a machine without internet access can check everything else.
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
	checkTimeout = 10 * time.Minute // half a minute is usual, including the build of the tool
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

// reach asks the database for the time of its last change, to see that it answers.
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

// check runs govulncheck in the top directory of the tree, and prints what it finds. A
// vulnerability that the code can reach is an error.
func check(ctx context.Context, stdout io.Writer, db, packages string) error {
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile=scripts/vuln/govulncheck.mod", "govulncheck", "-db", db, packages)
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("govulncheck: %w", err)
	}
	return nil
}
