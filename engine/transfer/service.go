package transfer

import (
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Service moves tenants as files. The rooms hand it their parts.
type Service struct {
	db *records.DB

	spoolDir string
}

// New makes the room. Files on their way in are kept in spoolDir; where it is empty, in the system's folder for such.
func New(db *records.DB, spoolDir string) *Service { return &Service{db: db, spoolDir: spoolDir} }
