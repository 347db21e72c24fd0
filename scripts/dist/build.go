package main

import (
	"debug/buildinfo"
	"path/filepath"
)

// binary is leasectl, built for one system.
type binary struct {
	system, arch string // as Go names them
	path         string
	info         *buildinfo.BuildInfo
}

// name is what the files of b are called, without an ending.
func (b binary) name(s source) string {
	return "leasectl_" + s.version + "_" + b.system + "_" + b.arch
}

// build makes a static binary: nothing in it says where it was built.
func build(s source, work, system, arch string) (binary, error) {
	b := binary{system: system, arch: arch, path: filepath.Join(work, system+"-"+arch, "leasectl")}
	env := s.environment("CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=")
	err := call(env, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.buildVersion="+s.version, "-o", b.path, "./cmd/leasectl")
	if err != nil {
		return binary{}, err
	}
	b.info, err = buildinfo.ReadFile(b.path)
	return b, err
}

// writeDocs makes the man pages and the completions, in work/man and
// work/completions. A test of the commands writes them, so that no installed
// program has the libraries in it.
func writeDocs(s source, work string) error {
	return call(s.environment(), "go", "test", "-count=1", "-vet=off", "./cmd/leasectl", "-run", "^TestCommandReference$", "-docs", work)
}
