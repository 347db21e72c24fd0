package proxyserver

import (
	"slices"
	"strings"
	"sync"
)

// warning says what is wrong with a source of settings.
type warning struct{ source, text string }

// warnings are the present ones, at most one for each source.
type warnings struct {
	mu   sync.Mutex
	list []warning // in the order of their sources
}

// set replaces the warning of source; an empty text removes it.
func (ws *warnings) set(source, text string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	i, there := slices.BinarySearchFunc(ws.list, source, func(w warning, source string) int {
		return strings.Compare(w.source, source)
	})
	switch {
	case text == "" && there:
		ws.list = slices.Delete(ws.list, i, i+1)
	case text == "":
	case there:
		ws.list[i].text = text
	default:
		ws.list = slices.Insert(ws.list, i, warning{source, text})
	}
}

func (ws *warnings) all() []warning {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return slices.Clone(ws.list)
}
