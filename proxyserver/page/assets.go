package page

import (
	_ "embed"
	"hash/fnv"
	"strconv"
)

// Asset is a file that pages need.
type Asset struct {
	Name        string
	ContentType string
	Text        string
}

//go:embed style.css
var style string

//go:embed live.js
var script string

// The assets.
var (
	Style  = Asset{"style.css", "text/css; charset=utf-8", style}
	Script = Asset{"live.js", "text/javascript; charset=utf-8", script}
	Icon   = Asset{"icon.svg", "image/svg+xml", icon}
)

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#2f6db5"/><rect x="3" y="4" width="10" height="3" fill="#fff"/><rect x="3" y="9" width="6" height="3" fill="#fff"/></svg>`

// Path returns the path of the asset. The path changes with the text, so that a browser may
// cache an asset for ever.
func (a Asset) Path() string {
	h := fnv.New64a()
	h.Write([]byte(a.Text))
	return "/ui/" + strconv.FormatUint(h.Sum64(), 36) + "/" + a.Name
}

// AssetAt returns the asset of a path; false if there is none.
func AssetAt(path string) (Asset, bool) {
	for _, a := range []Asset{Style, Script, Icon} {
		if path == a.Path() {
			return a, true
		}
	}
	return Asset{}, false
}
