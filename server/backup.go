package server

import (
	"context"
	"io"
	"net/http"
)

// backupType is the media type of a backup: engine/store/backup says what it looks like.
const backupType = "application/octet-stream"

// BackupFunc writes all that is stored, as of one instant, to w.
type BackupFunc func(ctx context.Context, w io.Writer) error

// backUp streams a backup of the whole store, of all tenants. It answers backup_unsupported where the store's database
// has backups of its own, and backup_running while another one is taken: a backup keeps old data in the database for as
// long as it runs, so there is only one at a time.
func (s *Server) backUp(_ context.Context, c *call[nothing]) (streamed, error) {
	if s.backup == nil {
		return streamed{}, refuse(http.StatusNotImplemented, "backup_unsupported",
			"this server's store has backups of its own")
	}
	body := c.written(backupType, s.backup)
	if c.c.Context().IsHead() {
		return body, nil
	}
	if !s.backingUp.CompareAndSwap(false, true) {
		return streamed{}, refuse(http.StatusConflict, "backup_running",
			"a backup is being taken; wait until it has ended")
	}
	body.close = func() { s.backingUp.Store(false) }
	return body, nil
}
