package clitest

import (
	"os"
	"path/filepath"
	"testing"
)

// callersAuth is the file of serve --auth that [WriteCallers] writes.
const callersAuth = `tokens:
- {name: alice, secret_file: alice.token}
- {name: alice, secret_file: alice-2.token}
- {name: bob, secret_file: bob.token}
- {name: carol, secret_file: carol.token, pools: [other]}
`

// WriteCallers writes the tokens of three callers into a folder, as NAME.token, and the file for serve --auth, whose path it
// returns. alice has two tokens, alice and alice-2; bob sees her pools; carol sees the pool other only.
func WriteCallers(t *testing.T, dir string) (auth string) {
	t.Helper()
	files := map[string]string{"auth.yaml": callersAuth}
	for _, token := range []string{"alice", "alice-2", "bob", "carol"} {
		files[token+".token"] = token + "-secret-0123456789\n"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "auth.yaml")
}
