package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// docs/troubleshooting.md lists the messages of some exit codes. Three checks compare it with the
// program. Each message that a scenario sees with such a code must be on the page. Each message on
// the page must be seen by a scenario, or be in rareMessages. Each text in the source that makes
// such a message must be on the page.

// documentedCodes are the exit codes whose messages are on the page.
var documentedCodes = []int{exitUnknownType, exitUnreachable, exitNoLease, exitLost, exitSuperseded, exitExecFailure}

// rareMessages are messages of the page that no scenario provokes, with the reason. Their words
// must stand in the source.
var rareMessages = map[string]string{
	"lease proxy does not answer: …: it may be overloaded, or --proxy may be something else's address":                                                               "it takes seconds of silence",
	`lease proxy does not answer: …; request … is unconfirmed: up to … of type "…" may be held: leasectl recover gives it back, or lists it if the proxy cannot say`: "it takes seconds of silence",
	"lease proxy does not answer: …: … after … bytes of the copy: try again":                                                                                         "it takes a proxy that ends within a backup",
	"lease proxy answers with errors only: …": "it takes a proxy that fails for long",
	"the lease proxy is of version 1, and has taken the place of the one that was asked: it granted without …":                                                                    "the proxy must be replaced between two requests",
	"lease lost: given back through its handle: stopping the command":                                                                                                             "the watch of a handle takes a second",
	`the round of shared lease "…" was removed: lease lost: stopping the command`:                                                                                                 "the lease stays until its TTL is over",
	`the use of shared lease "…" that this command is within has ended: lease lost`:                                                                                               "the command must outlive its exec",
	"the certificate has no name: ask the operator for one that has":                                                                                                              "it takes such a certificate",
	"(is … the address of a lease proxy?)":                                                                                                                                        "it takes a server that is none",
	`the service of shared lease "…" could not be started: …`:                                                                                                                     "the machine must be short of something",
	`shared lease "…": start a keeper for its service: …`:                                                                                                                         "the machine must be short of something",
	"… belongs to user …, and this is user …: use a path whose parts are all yours or root's, or run as user …":                                                                   "it takes another user",
	"… belongs to user …, and others can write to it: chmod 755 it, or run as user …, or use another directory":                                                                   "it takes another user",
	"… as user …, to whom its directory or one above belongs: run as user …, or use another directory":                                                                            "it takes another user",
	"… belongs to user …, and a directory above it to user …: use a path of one user":                                                                                             "it takes two other users",
	"… belongs to user …, and this is user …: use another path, or run as user …":                                                                                                 "it takes another user",
	"… belongs to user …, and this is user 0, who uses files of others only in directories that are theirs alone: run as user …, or use such a directory":                         "it takes another user",
	"user … listens on socket …, this is user …, and others can write to …: run the proxy as this user or root, or put its socket into a directory that only user … can write to": "it takes another user",
	"… gave no token in time":                               "the command must hang for as long as the wait",
	"lease lost: released late, at …: stopping the command": "TestLateReleaseOfSharedLease sees it",
	"the lease is not of the server of … that answered, which has another store: name the one that granted it with --proxy": "TestReleaseToAnotherStore sees it",
	"the process that started this has ended: no lease is taken (setsid leasectl … waits all the same)":                     "TestAcquireWhoseShellWasKilled sees it",
	"find the directory of the service: …":                            "most systems know the directory of a process even if it was removed",
	"request has ended: …: released or cancelled elsewhere":           "the request must end before its first answer",
	"request has ended: …: granted, and ended before the answer came": "it takes 30 s",
	`request … is unconfirmed: up to … of type "…" may be held: leasectl recover gives it back, or lists it if the proxy cannot say`: "an answer must be lost",
	"request … is unconfirmed: could not give back …": "a release must fail after a request has",
	"put the release off by …: …: lease lost (…)":     "the lease must end while it is acquired",
}

// documentedMessage is a row of a table of messages of the page.
type documentedMessage struct {
	text    string // as it stands on the page
	pattern *regexp.Regexp
}

// documentedMessages returns the messages of the page, by exit code.
func documentedMessages(t testing.TB) map[int][]documentedMessage {
	page := readPage(t, "docs/troubleshooting.md")
	messages := make(map[int][]documentedMessage)
	for _, code := range documentedCodes {
		_, section, _ := strings.Cut(page, fmt.Sprintf("\n## Exit code %d:", code))
		section, _, _ = strings.Cut(section, "\n## ")
		_, table, _ := strings.Cut(section, "\n| message |")
		table, _, _ = strings.Cut(table, "\n\n")
		for _, m := range regexp.MustCompile("(?m)^\\| `([^`]*)` \\|").FindAllStringSubmatch(table, -1) {
			pattern := strings.ReplaceAll(regexp.QuoteMeta(m[1]), "…", ".*")
			messages[code] = append(messages[code], documentedMessage{m[1], regexp.MustCompile(pattern)})
		}
		if len(messages[code]) == 0 {
			t.Fatalf("docs/troubleshooting.md has no messages of exit code %d", code)
		}
	}
	return messages
}

// readPage returns the text of a page for people.
func readPage(t testing.TB, page string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// seenMessages records the messages of the page that scenarios have seen.
type seenMessages struct {
	documented map[int][]documentedMessage
	mu         sync.Mutex
	seen       map[string]bool
}

// check looks on the page for the message of a leasectl that ended with code. It fails the scenario
// if the message is missing and code is one of documentedCodes. Other commands end with 1 or 2 for the
// errors for which exec ends with 125.
func (s *seenMessages) check(ts *testscript.TestScript, code int, stderr string) {
	mustBeThere := slices.Contains(documentedCodes, code)
	messages := s.documented[code]
	switch code {
	case exitFailure:
		messages = s.documented[exitExecFailure]
	case exitExecFailure:
		messages = slices.Concat(messages, s.documented[exitUnknownType])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range messages {
		if m.pattern.MatchString(stderr) {
			s.seen[m.text], mustBeThere = true, false
		}
	}
	if mustBeThere {
		ts.Fatalf("docs/troubleshooting.md has none of the messages of exit code %d:\n%s", code, stderr)
	}
}

// stale returns the messages of the page that no scenario has seen.
func (s *seenMessages) stale() (stale []string) {
	for _, messages := range s.documented {
		for _, m := range messages {
			if !s.seen[m.text] && rareMessages[m.text] == "" {
				stale = append(stale, m.text)
			}
		}
	}
	return stale
}

// messageErrors are the errors that lead to the codes of the page. Their texts, and the texts that
// wrap them, are messages.
var messageErrors = []string{
	"ErrUnknownType", "ErrUnreachable", "ErrVersion1", "ErrExhausted", "ErrNoRoom", "ErrLost", "ErrHeld", "ErrReplaced", "ErrSuperseded", "ErrEnded",
	"ErrRemoved", "ErrUnconfirmed", "ErrNewer",
}

// notOnThePage are texts of messageErrors that no user ever reads.
var notOnThePage = map[string]string{
	"no lease within the wait": "ExhaustedError says more",
	"outcome unconfirmed":      "UnconfirmedError says more",
	"is unconfirmed: the proxy forgot the name when it was released before, without success, and the pool behind it may still hold the lease": "v1.UnconfirmedError says more",
}

// The texts in the source that make messages of the page's codes are on the page.
func TestMessagesAreExplained(t *testing.T) {
	page := readPage(t, "docs/troubleshooting.md")
	found := 0
	var code strings.Builder
	for _, dir := range []string{"proxyclient", "internal/holder", "internal/holder/dial", "internal/holder/keeper", "internal/holder/recovery", "internal/holder/shared", "internal/holder/v1", "internal/own", "lockfile", "internal/supervisor", "cmd/leasectl"} {
		paths, err := filepath.Glob("../../" + dir + "/*.go")
		if err != nil || len(paths) == 0 {
			t.Fatalf("%d files in %s: %v", len(paths), dir, err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(source)
			for _, text := range messageTexts(t, path) {
				for _, part := range verbs.Split(text, -1) {
					part = strings.Trim(part, " :;,.()")
					if len(part) < 8 || notOnThePage[part] != "" {
						continue
					}
					found++
					if !strings.Contains(page, part) {
						t.Errorf("%s: %q: docs/troubleshooting.md does not have %q", path, text, part)
					}
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("found %d texts in the code: it has more", found)
	}
	for message := range rareMessages {
		if !strings.Contains(page, "`"+message+"`") {
			t.Errorf("rareMessages has %q, and the page has not", message)
		}
		for _, part := range regexp.MustCompile(`…|: |; |, `).Split(message, -1) {
			if part = strings.Trim(part, ` :;,.()"`); len(part) >= 8 && !strings.Contains(code.String(), part) {
				t.Errorf("%q: no file has %q", message, part)
			}
		}
	}
}

var verbs = regexp.MustCompile(`%[-+#0-9.*]*[a-zA-Z]`)

// messageTexts returns the texts in a file that make messages of messageErrors: arguments of
// errors.New, formats that wrap the errors, and the texts in methods Error and in the functions
// Describe of holder.
func messageTexts(t *testing.T, path string) (texts []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	is := typesThatAre(file)
	for _, decl := range file.Decls {
		f, isFunc := decl.(*ast.FuncDecl)
		whole := isFunc && (f.Name.Name == "Error" && is[receiverOf(f)] || strings.HasSuffix(path, "holder/errors.go") && strings.HasPrefix(strings.ToLower(f.Name.Name), "describe"))
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if whole {
					texts = append(texts, literal(n))
				}
			case *ast.ValueSpec:
				if len(n.Names) == 1 && len(n.Values) == 1 && slices.Contains(messageErrors, n.Names[0].Name) {
					if call, ok := n.Values[0].(*ast.CallExpr); ok {
						texts = append(texts, literal(call.Args[0]))
					}
				}
			case *ast.CallExpr:
				if len(n.Args) > 1 && slices.ContainsFunc(n.Args[1:], namesMessageError) {
					texts = append(texts, literal(n.Args[0]))
				}
			}
			return true
		})
	}
	return texts
}

// typesThatAre returns the types of a file whose method Is compares with one of messageErrors.
func typesThatAre(file *ast.File) map[string]bool {
	is := make(map[string]bool)
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Name.Name != "Is" || f.Recv == nil {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && namesMessageError(e) {
				is[receiverOf(f)] = true
			}
			return true
		})
	}
	return is
}

func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if name, ok := typ.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

func namesMessageError(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return slices.Contains(messageErrors, e.Name)
	case *ast.SelectorExpr:
		return slices.Contains(messageErrors, e.Sel.Name)
	}
	return false
}

// literal returns the text of a string literal; "" if e is no such literal.
func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value)
	return text
}
