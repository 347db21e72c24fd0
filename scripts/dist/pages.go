package main

import "strings"

// pages are the files of the tree that people read, by their paths: the README and what
// its links lead to, so that they lead there in an archive, too. Links into the code are
// not among them, and neither is what git ignores.
func pages() ([]string, error) {
	list, err := git("ls-files", "--error-unmatch", "--", ":(exclude)examples/test",
		":(glob)*.md", "LICENSE", "docs", ":(glob)examples/*.md", ":(glob)examples/*/*",
		"scripts/client.sh", "scripts/trap.sh", "scripts/step-example.sh", "scripts/examples")
	return strings.Split(list, "\n"), err
}
