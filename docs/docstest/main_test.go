// Package docstest has the tests of the pages for people: their commands are run and their output
// compared, their links lead somewhere, and they name commands, flags, metrics, errors and tests that
// there are. It also checks which package imports which, as docs/architecture.md says.
//
// Tests that compare a page with the code of a command are beside that command: docs/commands.md
// (reference_test.go in cmd/leasectl), the tables of docs/using.md and docs/troubleshooting.md
// (topics_test.go), and the messages of the latter, which the scenarios see (troubleshooting_test.go).
package docstest

import (
	"os"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

func TestMain(m *testing.M) { os.Exit(clitest.Run(m.Run)) }
