package tenant

import (
	"crypto/sha256"

	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Service keeps tenants, their keys, their audit log and what they used.
type Service struct {
	db *records.DB

	rootKey [32]byte
	hasRoot bool
	keys    records.Memo[keyRecord]
	keyUses keyUses
}

// New makes the room. The operator's key is root's; where it is empty, nobody is root.
func New(db *records.DB, rootKey string) *Service {
	svc := &Service{db: db}
	if rootKey != "" {
		svc.rootKey, svc.hasRoot = sha256.Sum256([]byte(rootKey)), true
	}
	return svc
}
