package main

// distMutants are bugs of making a release, and of programs of different versions together.
var distMutants = []mutant{
	{"a version depends on how much a clone has", "scripts/dist/source.go", `"--abbrev=12", `, "",
		"./scripts/dist", "TestVersion", false},
	{"a version after a tag sorts before it", "scripts/dist/source.go", `version += "+" + m[2]`, `version += "-" + m[2]`,
		"./scripts/dist", "TestVersion", false},
	{"a tree with unknown files is a release", "scripts/dist/source.go", `git("status", "--porcelain")`, `git("diff", "--name-only")`,
		"./scripts/dist", "TestVersion", false},
	{"a tree of another user has no version", "scripts/dist/source.go", `"-c", "safe.directory=*"`, `"-c", "a.b=c"`,
		"./scripts/dist", "TestForeignTree", false},
	{"a directory of a repository is a release of it", "scripts/dist/source.go", `if inside != "" {`, `if inside == "/" {`,
		"./scripts/dist", "TestNoRepository", false},
	{"a release replaces somebody's files", "scripts/dist/main.go", "filepath.Join(dir, checksums)", "dir",
		"./scripts/dist", "TestReplaceable", false},
	{"a store of a newer format is opened", "proxyserver/store/bolt/table.go", "meta.Format > format || ", "",
		"./cmd/leasectl", "TestScripts/newer_store", false},
	{"a client knows its own wire only", "proxyclient/query.go", "h.Wire < wireUnits:", "h.Wire != wireUnits:",
		"./cmd/leasectl", "TestScripts/newer_server", false},
	{"a server refuses newer clients", "proxyserver/params.go", "err != nil || p.wire < 1", "err != nil || p.wire < 1 || p.wire > leaseapi.Wire",
		"./proxyserver", "TestUnitsOfRequests", false},
}
