package main

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// component is a part of a software bill of materials. See
// https://cyclonedx.org/docs/1.5/json/.
type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
}

// writeSBOM lists the modules in b, as the linker recorded them.
func writeSBOM(b binary, s source, out string) error {
	bom := struct {
		Format      string `json:"bomFormat"`
		SpecVersion string `json:"specVersion"`
		Version     int    `json:"version"`
		Metadata    struct {
			Timestamp string    `json:"timestamp"`
			Component component `json:"component"`
		} `json:"metadata"`
		Components []component `json:"components"`
	}{Format: "CycloneDX", SpecVersion: "1.5", Version: 1}
	bom.Metadata.Timestamp = s.date.Format(time.RFC3339)
	bom.Metadata.Component = component{Type: "application", Name: "leasectl", Version: s.version, PURL: packageURL(b.info.Main.Path, s.version)}
	std := b.info.GoVersion
	bom.Components = append(bom.Components, component{Type: "library", Name: "std", Version: std, PURL: packageURL("std", std)})
	for _, dep := range b.info.Deps {
		bom.Components = append(bom.Components, component{Type: "library", Name: dep.Path, Version: dep.Version, PURL: packageURL(dep.Path, dep.Version)})
	}
	text, err := json.MarshalIndent(bom, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, b.name(s)+".cdx.json"), append(text, '\n'), 0o644)
}

// packageURL names a module as https://github.com/package-url/purl-spec says. A
// version has no special character but +.
func packageURL(module, version string) string {
	return "pkg:golang/" + module + "@" + url.QueryEscape(version)
}
