package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// How much of what a memory was before is kept: that many versions, and that many bytes of content, but always the one
// before.
const (
	maxMemoryVersions     = 20
	maxMemoryVersionBytes = 2 << 20
)

// memoryRecord is a stored memory. Its record is the length of its JSON, the JSON without the content, and the content.
type memoryRecord struct {
	Memory
	// Incarnation tells this memory from others that bore its key before, and from those after it is forgotten.
	Incarnation incarnation   `json:"incarnation"`
	Bytes       int           `json:"bytes"`             // of the content
	History     []keptVersion `json:"history,omitempty"` // oldest first
	Replaced    *replacement  `json:"replaced,omitempty"`

	stored  []byte // the record as it lies in the store
	damaged bool   // it failed its checksum: all that is known of it is its key
}

// keptVersion names an earlier version whose record is kept.
type keptVersion struct {
	Version int `json:"version"`
	Bytes   int `json:"bytes"`
}

// replacement says who overwrote a version, and when.
type replacement struct {
	At    time.Time `json:"at"`
	KeyID string    `json:"key_id"`
	Agent string    `json:"agent"`
}

func (r *memoryRecord) expired(now time.Time) bool {
	return r.ExpiresAt != nil && !r.ExpiresAt.After(now)
}

func (r *memoryRecord) session() string {
	if r.SessionID == nil {
		return ""
	}
	return *r.SessionID
}

// encode gives the record as it is stored.
func (r *memoryRecord) encode() ([]byte, error) {
	r.Bytes = len(r.Content)
	bare := *r
	bare.Content = ""
	meta, err := json.Marshal(&bare)
	if err != nil {
		return nil, err
	}
	whole := make([]byte, 0, binary.MaxVarintLen32+len(meta)+len(r.Content))
	whole = binary.AppendUvarint(whole, uint64(len(meta)))
	return append(append(whole, meta...), r.Content...), nil
}

// decodeMemory reads a stored record.
func decodeMemory(stored []byte) *memoryRecord {
	damaged := &memoryRecord{damaged: true}
	size, n := binary.Uvarint(stored)
	if n <= 0 || size > uint64(len(stored)-n) {
		return damaged
	}
	head := n + int(size)
	rec := &memoryRecord{stored: stored}
	if json.Unmarshal(stored[n:head], rec) != nil || len(stored)-head != rec.Bytes {
		return damaged
	}
	rec.Content = string(stored[head:])
	return rec
}

// loadMemories reads records of memories, or of what they were before, by their keys in the store; nil where there is none.
func (e *Engine) loadMemories(ctx context.Context, tenant string, keys [][]byte) ([]*memoryRecord, error) {
	r, err := e.store.Read(ctx, tenant, store.Query{Keys: keys})
	if err != nil {
		return nil, err
	}
	out := make([]*memoryRecord, len(keys))
	for i, it := range r.Keys {
		if it.Value != nil || it.Damaged {
			out[i] = decodeMemory(it.Value)
		}
	}
	return out, nil
}

// readMemories reads memories by their keys; nil where there is none, or one that is past its expiry or damaged.
func (e *Engine) readMemories(ctx context.Context, tenant string, p *project, keys []string) ([]*memoryRecord, error) {
	out, err := e.loadLive(ctx, tenant, p, keys)
	for i, rec := range out {
		if rec != nil && rec.damaged {
			out[i] = nil
		}
	}
	return out, err
}

// loadLive is loadMemories by keys, without what is past its expiry. Damage is reported to the operator.
func (e *Engine) loadLive(ctx context.Context, tenant string, p *project, keys []string) ([]*memoryRecord, error) {
	stored := make([][]byte, len(keys))
	for i, key := range keys {
		stored[i] = kindMemory.Key(p.Incarnation, key)
	}
	out, err := e.loadMemories(ctx, tenant, stored)
	now := e.now()
	for i, rec := range out {
		switch {
		case rec == nil:
		case rec.damaged:
			e.log.Error("a stored memory is damaged", "tenant", tenant, "project", p.ID)
		case rec.expired(now):
			out[i] = nil
		}
	}
	return out, err
}

// memory reads a memory to change it, expired or not, and expects it unchanged at commit.
func (t *tx) memory(p *project, key string) (*memoryRecord, error) {
	expect := store.Expect{Key: kindMemory.Key(p.Incarnation, key)}
	found, err := t.e.loadMemories(t.ctx, t.tenant, [][]byte{expect.Key})
	if err != nil {
		return nil, err
	}
	if found[0] != nil {
		if found[0].damaged {
			return nil, errDamagedMemory(key)
		}
		expect.Value = found[0].stored
	}
	t.batch.Expect = append(t.batch.Expect, expect)
	return found[0], nil
}

// succeed makes the record the version after old, which goes to the history.
func (r *memoryRecord) succeed(t *tx, p *project, old *memoryRecord) error {
	r.Version, r.CreatedAt, r.Incarnation = old.Version+1, old.CreatedAt, old.Incarnation
	r.History = append(old.History[:len(old.History):len(old.History)],
		keptVersion{Version: old.Version, Bytes: old.Bytes})
	bytes := 0
	for _, kept := range r.History {
		bytes += kept.Bytes
	}
	for len(r.History) > maxMemoryVersions || bytes > maxMemoryVersionBytes && len(r.History) > 1 {
		bytes -= r.History[0].Bytes
		t.deleteMemoryVersion(p, old.Key, r.History[0])
		r.History = r.History[1:]
	}
	return t.putMemoryVersion(p, r, old)
}

// putMemory collects the writes that store a record over old, nil where its key is free: the record, time index, expiry,
// and the index that recall searches.
func (t *tx) putMemory(p *project, rec, old *memoryRecord) error {
	value, err := rec.encode()
	if err != nil {
		return err
	}
	t.put(kindMemory.Key(p.Incarnation, rec.Key), value)
	entry, err := rec.entry()
	if err != nil {
		return err
	}
	t.put(kindMemoryTime.Key(p.Incarnation, rec.UpdatedAt, rec.Key), entry)
	if rec.ExpiresAt != nil {
		t.put(kindExpiry.Key(*rec.ExpiresAt, kindMemory.Key(p.Incarnation, rec.Key)), []byte{0})
	}
	if old == nil {
		return t.putDocument(p.Incarnation, rec.doc(), rec.Content)
	}
	if !old.UpdatedAt.Equal(rec.UpdatedAt) {
		t.delete(kindMemoryTime.Key(p.Incarnation, old.UpdatedAt, rec.Key))
	}
	if old.ExpiresAt != nil && (rec.ExpiresAt == nil || !rec.ExpiresAt.Equal(*old.ExpiresAt)) {
		t.delete(kindExpiry.Key(*old.ExpiresAt, kindMemory.Key(p.Incarnation, rec.Key)))
	}
	return t.putDocument(p.Incarnation, rec.doc(), rec.Content)
}

// putMemoryVersion keeps old as what rec was before.
func (t *tx) putMemoryVersion(p *project, rec, old *memoryRecord) error {
	kept := *old
	kept.History = nil
	kept.Replaced = &replacement{At: rec.UpdatedAt, KeyID: rec.KeyID, Agent: rec.Agent}
	value, err := kept.encode()
	t.put(kindMemoryVersion.Key(p.Incarnation, old.Key, uint32(old.Version)), value)
	return err
}

// deleteMemory collects the writes that leave nothing of a memory.
func (t *tx) deleteMemory(p *project, old *memoryRecord) error {
	t.delete(kindMemory.Key(p.Incarnation, old.Key))
	t.delete(kindMemoryTime.Key(p.Incarnation, old.UpdatedAt, old.Key))
	if old.ExpiresAt != nil {
		t.delete(kindExpiry.Key(*old.ExpiresAt, kindMemory.Key(p.Incarnation, old.Key)))
	}
	t.deleteMemoryHistory(p, old)
	return t.deleteDocument(p.Incarnation, old.Key)
}

func (t *tx) deleteMemoryHistory(p *project, old *memoryRecord) {
	if old == nil {
		return
	}
	for _, kept := range old.History {
		t.deleteMemoryVersion(p, old.Key, kept)
	}
}

func (t *tx) deleteMemoryVersion(p *project, key string, kept keptVersion) {
	t.delete(kindMemoryVersion.Key(p.Incarnation, key, uint32(kept.Version)))
}
