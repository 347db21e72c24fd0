package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// standsOnce is a fact that may stand only in certain files.
type standsOnce struct {
	fact string
	is   func(ast.Node) bool
	in   []string // files, or folders with a slash at the end
}

var facts = []standsOnce{
	{
		fact: "what characters a name, a type or a printed text may have",
		is: calls("unicode.IsControl", "unicode.IsPrint", "unicode.IsGraphic", "unicode.IsSpace", "utf8.ValidString",
			"utf8.RuneError", "utf8.ValidRune"),
		in: []string{"leaseapi/rules.go"},
	},
	{
		fact: "how long a name, a type, an owner, a reason or a request id may be",
		is: compares("leaseapi.MaxName", "leaseapi.MaxOwner", "leaseapi.MaxReason", "leaseapi.MaxRequestID",
			"MaxName", "MaxOwner", "MaxReason", "MaxRequestID"),
		in: nil, // the rules, and Clip, compare a parameter
	},
	{
		fact: "is the proxy of version 1? A lease without a generation says so to proxyclient.CapabilitiesOf",
		is:   comparesGeneration,
		in: []string{
			"proxyclient/capabilities.go",
			"proxyclient/operate.go", // nobody holds the name
			"lockfile/grant.go",      // are two grants one?
			"pool/", "proxyserver/",  // have no version-1 peer to ask: a request without a generation means the name
		},
	},
	{
		fact: "is the proxy of version 1? Its refusal says so to callers that could not ask before",
		is:   calls("errors.ErrUnsupported"),
		in: []string{
			"proxyclient/release.go", "proxyclient/releaseall.go", "proxyclient/query.go", // make it
			"proxyclient/unwind.go",                                                                                                  // a request is taken back all the same
			"holder/origin.go", "holder/settle.go", "holder/send.go", "holder/delay.go", "holder/named.go", "cmd/leasectl/status.go", // go on without
		},
	},
	{
		fact: "sleeping until a context ends",
		is:   sleeps,
		in:   []string{"proxyclient/instant.go", "proxyserver/store/etcd/client.go"}, // a server has no use for the client
	},
	{
		fact: "the names T-0, T-1, … of a pool of N",
		is:   numbers,
		in:   []string{"pool/names.go"},
	},
	{
		fact: "how a duration is printed",
		is:   literals("0s", "m0s", "0m", "h0m"),
		in:   []string{"leaseapi/duration.go"},
	},
	{
		fact: "how many leases a pool may have",
		is:   literals("100000"),
		in:   []string{"pool/config.go"},
	},
	{
		fact: "what may be the URL of a proxy",
		is:   calls("url.Parse", "url.ParseRequestURI"),
		in:   []string{"proxyclient/url.go", "holder/address.go", "proxyserver/page/link.go"}, // "local", which proxyclient does not know; links
	},
	{
		fact: "fsync",
		is:   callsMethod("Sync"),
		in:   []string{"proxyserver/store/bolt/"},
	},
	{
		fact: "the end of the process",
		is:   calls("os.Exit", "log.Fatal", "log.Fatalf", "syscall.Exit"),
		in:   []string{"cmd/leasectl/main.go", "trap/die_linux.go", "trap/die_darwin.go", "trap/internal/testenv/"},
	},
	{
		fact: "flock(2)",
		is:   calls("syscall.Flock", "unix.Flock", "flock.New"),
		in:   []string{"lockfile/"},
	},
}

// TestFactsStandOnce checks that facts stand only in their places. A place without the fact is an
// error, too: then the rule looks for the wrong thing.
func TestFactsStandOnce(t *testing.T) {
	found := make([]map[string]bool, len(facts))
	for i := range found {
		found[i] = make(map[string]bool)
	}
	for _, dir := range packages(t) {
		if strings.HasPrefix(dir, "scripts") {
			continue // beside the house
		}
		paths, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			rel := dir + "/" + filepath.Base(path)
			ast.Inspect(file, func(n ast.Node) bool {
				for i, f := range facts {
					if n == nil || !f.is(n) {
						continue
					}
					place := slices.IndexFunc(f.in, func(in string) bool {
						return rel == in || strings.HasSuffix(in, "/") && strings.HasPrefix(rel, in)
					})
					if place < 0 {
						t.Errorf("%s:%d: %s: this stands in %v", rel, fset.Position(n.Pos()).Line, f.fact, f.in)
						continue
					}
					found[i][f.in[place]] = true
				}
				return true
			})
		}
	}
	for i, f := range facts {
		for _, in := range f.in {
			if !found[i][in] {
				t.Errorf("%s: not in %s: take that off the list", f.fact, in)
			}
		}
	}
}

// selector returns x.y or a bare name as text; "" for other nodes.
func selector(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Ident:
		return n.Name
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok {
			return x.Name + "." + n.Sel.Name
		}
	}
	return ""
}

// calls finds uses of names of other packages, such as "os.Exit".
func calls(names ...string) func(ast.Node) bool {
	return func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		return ok && slices.Contains(names, selector(s))
	}
}

// callsMethod finds calls of a method without arguments.
func callsMethod(name string) func(ast.Node) bool {
	return func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) > 0 {
			return false
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		return ok && s.Sel.Name == name
	}
}

// compares finds comparisons with one of the named constants.
func compares(names ...string) func(ast.Node) bool {
	return func(n ast.Node) bool {
		b, ok := n.(*ast.BinaryExpr)
		return ok && isComparison(b.Op) && (slices.Contains(names, selector(b.X)) || slices.Contains(names, selector(b.Y)))
	}
}

func isComparison(op token.Token) bool {
	return slices.Contains([]token.Token{token.EQL, token.NEQ, token.LSS, token.GTR, token.LEQ, token.GEQ}, op)
}

// comparesGeneration finds a generation that is compared with zero.
func comparesGeneration(n ast.Node) bool {
	b, ok := n.(*ast.BinaryExpr)
	if !ok || !isComparison(b.Op) {
		return false
	}
	s, isSelector := b.X.(*ast.SelectorExpr)
	zero, isLiteral := b.Y.(*ast.BasicLit)
	return isSelector && isLiteral && s.Sel.Name == "Generation" && zero.Value == "0"
}

// sleeps finds a function that makes a timer and has a select of only the timer and the end of a
// context. (A ticker is for a loop.)
func sleeps(n ast.Node) bool {
	f, ok := n.(*ast.FuncDecl)
	if !ok {
		return false
	}
	timer, waits := false, false
	ast.Inspect(f, func(n ast.Node) bool {
		timer = timer || n != nil && calls("time.NewTimer", "time.After")(n)
		waits = waits || n != nil && selectsTimerOrDone(n)
		return true
	})
	return timer && waits
}

func selectsTimerOrDone(n ast.Node) bool {
	s, ok := n.(*ast.SelectStmt)
	if !ok || len(s.Body.List) != 2 {
		return false
	}
	timer, done := false, false
	for _, clause := range s.Body.List {
		var from ast.Expr
		switch comm := clause.(*ast.CommClause).Comm.(type) {
		case *ast.ExprStmt:
			from = comm.X
		case *ast.AssignStmt:
			from = comm.Rhs[0]
		}
		receive, ok := from.(*ast.UnaryExpr)
		if !ok {
			return false
		}
		switch x := receive.X.(type) {
		case *ast.SelectorExpr:
			timer = timer || x.Sel.Name == "C"
		case *ast.CallExpr:
			timer = timer || selector(x.Fun) == "time.After"
			method, ok := x.Fun.(*ast.SelectorExpr)
			done = done || ok && method.Sel.Name == "Done"
		}
	}
	return timer && done
}

// numbers finds code that joins a text, a hyphen and a number.
func numbers(n ast.Node) bool {
	if literals("%s-%d", "%v-%d")(n) {
		return true
	}
	b, ok := n.(*ast.BinaryExpr)
	if !ok || b.Op != token.ADD {
		return false
	}
	call, ok := b.Y.(*ast.CallExpr)
	if !ok || selector(call.Fun) != "strconv.Itoa" {
		return false
	}
	before, ok := b.X.(*ast.BinaryExpr)
	return ok && literals("-")(before.Y)
}

// literals finds strings and numbers with one of the values.
func literals(values ...string) func(ast.Node) bool {
	return func(n ast.Node) bool {
		l, ok := n.(*ast.BasicLit)
		if !ok {
			return false
		}
		value := strings.ReplaceAll(l.Value, "_", "")
		if l.Kind == token.STRING {
			value, _ = strconv.Unquote(l.Value)
		}
		return slices.Contains(values, value)
	}
}
