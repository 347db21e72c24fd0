package proxyserver

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/leaseapi"
)

// backupTime is how long the client of a backup may take to read it: a store has
// hundreds of megabytes at most.
const backupTime = 10 * time.Minute

// serveBackup answers with a copy of the store. The copy is made as fast as the
// disk allows, and then sent as fast as the client reads: commits do not wait for
// the client.
func (h *handler) serveBackup(c caller, w http.ResponseWriter, r *http.Request) {
	if err := cmp.Or(c.mayOperate("a backup"), c.mayOperateOnAll("a backup")); err != nil {
		h.refuseCall(w, err)
		return
	}
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	if err := checkNoFields(body); err != nil {
		badRequest(w, err)
		return
	}
	t := h.term()
	if err := t.do(func(*pool.Set, time.Duration) {}); err != nil {
		unavailable(w, err) // its store may be closed
		return
	}
	kept := t.store
	backuper, ok := kept.(store.Backuper)
	switch {
	case ok:
	case h.election != nil:
		problem(w, http.StatusConflict, leaseapi.ProblemNoStore, "the leases are in a database of several servers, which has its own backups: etcdctl snapshot save, or pg_dump")
		return
	default:
		problem(w, http.StatusConflict, leaseapi.ProblemNoStore, "the server keeps its state in memory only: there is nothing to copy")
		return
	}
	copied, size, err := backuper.Backup()
	if err != nil {
		h.log.Error("backup failed", "error", err)
		problem(w, http.StatusInternalServerError, leaseapi.ProblemUnavailable, fmt.Sprintf("backup: %v", err))
		return
	}
	defer copied.Close()
	h.log.Info("backup", c.by(), "bytes", size)
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(backupTime))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	io.Copy(w, copied) // an error means that the client has gone
}
