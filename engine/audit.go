package engine

import (
	"context"
	"time"
)

// auditLife is how long audit entries are kept.
const auditLife = 400 * 24 * time.Hour

// AuditEntry says who changed what, and when.
type AuditEntry struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	KeyID   string    `json:"key_id"` // empty where Mneme did it by itself
	Role    string    `json:"role"`
	Action  string    `json:"action"` // what.how: policy.upload, policy.live, policy.delete, policy.set_back
	Subject string    `json:"subject"`
	Detail  string    `json:"detail"`
}

// audit collects an entry, committed with the change that it tells of.
func (t *tx) audit(c Caller, action, subject, detail string) error {
	var id [8]byte
	t.e.random(id[:])
	key := kindAudit.Key(t.now, id)
	entry := AuditEntry{ID: "aud_" + idAlphabet.EncodeToString(id[:]), At: t.now, KeyID: c.KeyID, Role: c.Role.String(),
		Action: action, Subject: subject, Detail: detail}
	t.put(kindExpiry.Key(t.now.Add(auditLife), key), []byte{0})
	return t.putJSON(key, entry)
}

// ListAudit pages through a tenant's audit entries, newest first.
func (e *Engine) ListAudit(ctx context.Context, c Caller, page Page) (List[AuditEntry], error) {
	if err := c.wholeTenant(); err != nil {
		return List[AuditEntry]{}, err
	}
	return listPage(ctx, e, c.Tenant, kindAudit.All(), page, func(_ []byte, entry *AuditEntry) (AuditEntry, bool) {
		return *entry, true
	})
}
