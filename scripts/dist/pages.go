package main

import "strings"

// pages are the paths of the files that people read: the README and the files that its links
// lead to, so that the links work in an archive, too. Links into the code are left out, and so
// are files that git ignores.
func pages() ([]string, error) {
	list, err := git("ls-files", "--error-unmatch", "--", ":(exclude)examples/test", ":(exclude)docs/docstest",
		":(glob)*.md", "LICENSE", "docs", ":(glob)examples/*.md", ":(glob)examples/*/**",
		"scripts/client.sh", "scripts/trap.sh", "scripts/step-example.sh", "scripts/examples")
	return strings.Split(list, "\n"), err
}
