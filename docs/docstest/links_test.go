package docstest

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	mdLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdHeading = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	mdFence   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	htmlLink  = regexp.MustCompile(`(?:src|srcset|href)="([^"\s]+)"`)
	mdCode    = regexp.MustCompile("`[^`]+`")
)

// pageLink is a link of a page to a file of ours.
type pageLink struct {
	text   string // as it stands on the page
	to     string // the file
	anchor string // the heading in it; may be empty
}

func pageLinks(t *testing.T, page string) (links []pageLink) {
	t.Helper()
	text := mdFence.ReplaceAllString(readPage(t, page), "")
	for _, m := range append(mdLink.FindAllStringSubmatch(text, -1), htmlLink.FindAllStringSubmatch(text, -1)...) {
		target, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(target, "://") {
			continue
		}
		to := page
		if target != "" {
			to = path.Join(path.Dir(page), target)
		}
		links = append(links, pageLink{m[1], to, anchor})
	}
	return links
}

// Every link of a page to a file of ours leads to an existing file, and to an existing heading.
func TestLinks(t *testing.T) {
	links := 0
	for _, page := range docPages(t) {
		for _, l := range pageLinks(t, page) {
			links++
			if _, err := os.Stat("../../" + l.to); err != nil || strings.HasPrefix(l.to, "..") {
				t.Errorf("%s: the link to %s leads nowhere", page, l.text)
			} else if l.anchor != "" && !anchors(readPage(t, l.to))[l.anchor] {
				t.Errorf("%s: %s has no heading #%s", page, l.to, l.anchor)
			}
		}
	}
	if links < 30 {
		t.Errorf("found %d links: the pages have more", links)
	}
}

// anchors returns the names by which links reach the headings of a page: in lower case, with
// hyphens for spaces, without punctuation.
func anchors(text string) map[string]bool {
	names := make(map[string]bool)
	for _, m := range mdHeading.FindAllStringSubmatch(mdFence.ReplaceAllString(text, ""), -1) {
		names[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return names
}

// foreignFlags are the flags of other programs that the pages name.
var foreignFlags = map[string]string{
	"auto-compaction-retention": "etcd", "quota-backend-bytes": "etcd", "max-txn-ops": "etcd", "max-request-bytes": "etcd", "prefix": "etcdctl",
	"pretty-format": "lease__cat", "no-sandbox": "chromium",
	"lock-wait-timeout": "buildkite-agent", "audience": "buildkite-agent", "claims": "circleci", "nice": "sbatch", "time": "sbatch",
}

// The commands and flags that a page names in its text exist.
func TestDocsNameWhatIs(t *testing.T) {
	flags := make(map[string]bool)
	for _, help := range allHelp(t) {
		maps.Copy(flags, help.flags)
	}
	flag := regexp.MustCompile(`(?:^|[^\w-])--([a-z][a-z0-9-]*)`)
	for _, page := range docPages(t) {
		for _, code := range mdCode.FindAllString(mdFence.ReplaceAllString(readPage(t, page), ""), -1) {
			code = strings.Trim(strings.ReplaceAll(code, "\n", " "), "`")
			if strings.HasPrefix(code, "leasectl ") {
				checkCommandLine(t, page, code)
			}
			for _, m := range flag.FindAllStringSubmatch(code, -1) {
				if !flags[m[1]] && foreignFlags[m[1]] == "" {
					t.Errorf("%s: `%s`: no command has --%s", page, code, m[1])
				}
			}
		}
	}
}

// The server writes all metrics that the pages name, and the examples have all alerts that they
// name.
func TestDocsNameMetricsThatAre(t *testing.T) {
	var source strings.Builder
	paths := []string{"../../examples/prometheus/alerts.yaml"}
	for _, pattern := range []string{"../../internal/proxyserver/*.go", "../../internal/proxyserver/metrics/*.go"} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, matches...)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	found := 0
	for _, page := range docPages(t) {
		for _, code := range mdCode.FindAllString(mdFence.ReplaceAllString(readPage(t, page), ""), -1) {
			for _, name := range regexp.MustCompile(`\bleasectl_[a-z_0-9]+\b|\bLeases?[A-Z][A-Za-z]+\b`).FindAllString(code, -1) {
				found++
				if !strings.Contains(source.String(), `"`+name+`"`) && !strings.Contains(source.String(), "alert: "+name+"\n") {
					t.Errorf("%s: there is no metric or alert %s", page, name)
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("found %d metrics and alerts: the pages have more", found)
	}
}
