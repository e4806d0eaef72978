package server

import (
	"context"
	"io"
	"net/http"
)

// backupType is the media type of a backup: engine/backup says what it looks like.
const backupType = "application/octet-stream"

// BackupFunc writes all that is stored, as of one instant, to w.
type BackupFunc func(ctx context.Context, w io.Writer) error

// backUp streams a backup of the whole store, of all tenants. Taking one of two at once is enough for anybody: each
// holds old data in the database for as long as it runs.
func (s *Server) backUp(_ context.Context, c *call[nothing]) (streamed, error) {
	if s.backup == nil {
		return streamed{}, refuse(http.StatusNotImplemented, "backup_unsupported",
			"this server's store has backups of its own")
	}
	if !c.c.Context().IsHead() && !s.backingUp.CompareAndSwap(false, true) {
		return streamed{}, refuse(http.StatusConflict, "backup_running",
			"a backup is being taken; wait until it has ended")
	}
	body := s.written(backupType, s.backup)
	if !c.c.Context().IsHead() {
		body.close = func() { s.backingUp.Store(false) }
	}
	return body, nil
}
