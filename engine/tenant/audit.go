package tenant

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// auditLife is how long audit entries are kept.
const auditLife = 400 * 24 * time.Hour

// AuditEntry records who changed what, and when.
type AuditEntry struct {
	ID      string    `json:"id"`
	At      time.Time `json:"created_at"`
	KeyID   string    `json:"key_id"` // empty if Mneme did it by itself
	Role    string    `json:"role"`
	Action  string    `json:"action"` // what.how, such as policy.upload
	Subject string    `json:"subject"`
	Detail  string    `json:"detail"`
}

// storedAuditEntry is an AuditEntry as it is stored.
type storedAuditEntry struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	KeyID   string    `json:"key_id"` // empty if Mneme did it by itself
	Role    string    `json:"role"`
	Action  string    `json:"action"` // what.how, such as policy.upload
	Subject string    `json:"subject"`
	Detail  string    `json:"detail"`
}

// Audit adds an entry to the commit of the change that it describes. An action is what.how, such as policy.upload. If
// Mneme acts by itself, the caller is the zero value.
func Audit(t *records.Tx, c ident.Caller, action, subject, detail string) error {
	var id [8]byte
	t.DB.Random(id[:])
	key := records.Audit.Key(t.Now, id)
	entry := AuditEntry{ID: "aud_" + ident.Alphabet.EncodeToString(id[:]), At: t.Now, KeyID: c.KeyID,
		Role: c.Role.String(), Action: action, Subject: subject, Detail: detail}
	t.Put(records.Expiry.Key(t.Now.Add(auditLife), key), []byte{0})
	return t.PutJSON(key, storedAuditEntry(entry))
}

// ListAudit pages through a tenant's audit entries, newest first. It returns key_narrowed if the key does not reach the
// whole tenant.
func (svc *Service) ListAudit(ctx context.Context, c ident.Caller, page records.Page) (records.List[AuditEntry],
	error) {
	if err := c.WholeTenant(); err != nil {
		return records.List[AuditEntry]{}, err
	}
	return records.ListPage(ctx, svc.db, c.Tenant, records.Audit.All(), page,
		func(_ []byte, entry *storedAuditEntry) (AuditEntry, bool) { return AuditEntry(*entry), true })
}
