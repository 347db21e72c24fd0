package proxyserver

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// serveReady says whether the server does what it is there for. It waits for
// the commit that is under way, so a store that hangs is one that is not ready.
//
// Something that the server works on without, such as a configuration that it
// could not take up, is no reason to send it no requests: then it is ready, and
// degraded.
func (s *Server) serveReady(_ caller, w http.ResponseWriter, r *http.Request) {
	if err := s.do(func(time.Duration) {}); err != nil {
		unavailable(w, err)
		return
	}
	reply := leaseapi.Ready{Status: leaseapi.ReadyOK}
	all := s.warnings.all()
	if len(all) > 0 {
		reply.Status = leaseapi.ReadyDegraded
	}
	if _, known := s.identify(r); known {
		for _, w := range all {
			reply.Warnings = append(reply.Warnings, w.source+": "+w.text)
		}
	}
	answer(w, http.StatusOK, reply)
}

// Reloaded tells the server what came of reading the files of source again: nil
// if they were taken up, else why things stay as they were. It goes to the log,
// to the metrics, and for as long as it lasts to [leaseapi.PathReady].
func (s *Server) Reloaded(source string, err error) {
	s.metrics.reloaded(source, err == nil)
	if err != nil {
		s.log.Error("reload failed: everything stays as it was", "source", source, "error", err)
		s.warnings.set(source, "not taken up: "+err.Error())
		return
	}
	s.log.Info("reloaded", "source", source)
	s.warnings.set(source, "")
}

type warning struct{ source, text string }

// warnings are what is wrong for the time being, by source.
type warnings struct {
	mu   sync.Mutex
	list []warning // in the order of their sources
}

// set makes text what source warns of; nothing if that is empty.
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
