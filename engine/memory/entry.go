package memory

import (
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// entry is a memory's entry in the index by time: what filters check and quotas count.
type entry struct {
	Category  string   `json:"c"`
	Tags      []string `json:"t,omitempty"`
	Source    string   `json:"s,omitempty"`
	SessionID string   `json:"n,omitempty"`
	Expires   int64    `json:"x,omitempty"` // Unix ms; 0 means never
	Occurred  *int64   `json:"o,omitempty"` // Unix ms; nil if unknown
	Bytes     int      `json:"b"`           // of the memory's content, value and metadata
	Before    int      `json:"h,omitempty"` // bytes of earlier versions

	// The entry's key contains these.
	id string    // the memory's full name
	at time.Time // the memory's time, since 1970
}

// entry returns the memory's entry.
func (r *Record) entry() *entry {
	e := &entry{Category: r.Category, Tags: r.Tags, Source: r.Source, SessionID: r.session(), Bytes: r.size(),
		id: r.ID(), at: r.placed()}
	if r.OccurredAt != nil {
		ms := r.OccurredAt.UnixMilli()
		e.Occurred = &ms
	}
	for _, kept := range r.History {
		e.Before += kept.Bytes
	}
	if r.ExpiresAt != nil {
		e.Expires = r.ExpiresAt.UnixMilli()
	}
	return e
}

// entryOf reads an entry. If it is damaged, only the fields from its key are set.
func entryOf(it store.Item) (e entry, whole bool) {
	whole = !it.Damaged && json.Unmarshal(it.Value, &e) == nil
	if !whole {
		e = entry{}
	}
	_, e.at, e.id, _ = records.MemoryTime.Split(it.Key)
	return e, whole
}

// keys returns the entry's own key and, if the memory is known to expire, that of its entry in the expiry index.
func (e *entry) keys(pinc ident.Incarnation) [][]byte {
	keys := [][]byte{records.MemoryTime.Key(pinc, e.at, e.id)}
	if e.Expires != 0 {
		keys = append(keys, records.Expiry.Key(records.TimeOf(e.Expires), records.Memory.Key(pinc, e.id)))
	}
	return keys
}

// time returns the memory's time.
func (e *entry) time() time.Time {
	if e.Occurred != nil {
		return records.TimeOf(*e.Occurred)
	}
	return e.at
}

// weight returns what the memory counts in its tenant's quota.
func (e *entry) weight() records.Amount {
	return records.Amount{Count: 1, Bytes: int64(e.Bytes + e.Before)}
}

// damaged returns what the entry still knows about a memory whose record is damaged.
func (e *entry) damaged() Memory {
	namespace, key := ident.SplitFullName(e.id)
	m := Memory{Key: key, Namespace: namespace, Category: e.Category, Tags: append([]string{}, e.Tags...), Source: e.Source,
		CreatedAt: e.at, UpdatedAt: e.at, Damaged: true}
	if e.Occurred != nil {
		at := e.time()
		m.OccurredAt = &at
	}
	if e.SessionID != "" {
		m.SessionID = &e.SessionID
	}
	if e.Expires != 0 {
		at := records.TimeOf(e.Expires)
		m.ExpiresAt = &at
	}
	return m
}

// logDamagedEntry logs an unreadable entry for the operator.
func (svc *Service) logDamagedEntry(tenant string) {
	svc.db.Log.Error("an entry of the index of memories by time is damaged; lists omit its memory",
		"tenant", tenant)
}
