package server

import (
	"context"
	"io"
	"net/http"
)

// backupType is the media type of a backup. Package engine/store/backup documents the format.
const backupType = "application/octet-stream"

// BackupFunc writes the whole store, as of one instant, to w.
type BackupFunc func(ctx context.Context, w io.Writer) error

// backUp streams a backup of the whole store, with all tenants. It fails with backup_unsupported if the store's
// database has its own backups, and with backup_running while another backup is taken. A backup keeps old data in the
// database until it ends, so only one may run at a time.
func (s *Server) backUp(_ context.Context, c *call[nothing]) (streamed, error) {
	if s.backup == nil {
		return streamed{}, refuse(http.StatusNotImplemented, "backup_unsupported",
			"this server's store is a database with its own backups")
	}
	body := c.written(backupType, s.backup)
	if c.c.Context().IsHead() {
		return body, nil
	}
	if !s.backingUp.CompareAndSwap(false, true) {
		return streamed{}, refuse(http.StatusConflict, "backup_running",
			"a backup is already running; wait until it ends")
	}
	body.close = func() { s.backingUp.Store(false) }
	return body, nil
}
