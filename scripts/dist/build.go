package main

import (
	"debug/buildinfo"
	"path/filepath"
)

// binary is leasectl, built for one system.
type binary struct {
	system, arch string // as Go names them
	dir          string // of the program, and of the other files for this system only
	info         *buildinfo.BuildInfo
}

// name is the name of b's files, without an ending.
func (b binary) name(s source) string {
	return "leasectl_" + s.version + "_" + b.system + "_" + b.arch
}

func (b binary) program() string { return filepath.Join(b.dir, "leasectl") }
func (b binary) notices() string { return filepath.Join(b.dir, "NOTICES") }

// build makes a static binary that does not say where it was built. GOFLAGS is set to the
// default, because an empty variable would leave it to the user's go env. more is added to the
// environment.
func build(s source, work, system, arch string, more ...string) (b binary, err error) {
	b = binary{system: system, arch: arch, dir: filepath.Join(work, system+"-"+arch)}
	env := append(s.environment("CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch,
		"GOAMD64=v1", "GOARM64=v8.0", "GOPPC64=power8", "GOFIPS140=off", "GOFLAGS=-mod=readonly"), more...)
	err = call(env, "go", "build", "-tags", "nethttpomithttp2", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.buildVersion="+s.version+" -X main.buildCommit="+s.commit,
		"-o", b.program(), "./cmd/leasectl")
	if err != nil {
		return b, err
	}
	b.info, err = buildinfo.ReadFile(b.program())
	return b, err
}

// writeDocs makes the man pages and the completions, in work/man and work/completions. A test
// of the commands writes them, so that the libraries for this are not part of the installed
// program.
func writeDocs(s source, work string) error {
	return call(s.environment(), "go", "test", "-count=1", "-vet=off", "./cmd/leasectl", "-run", "^TestCommandReference$", "-docs", work)
}
