package memory

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// How much of what a memory was before is kept: that many versions, and that many bytes of content, but always the one
// before.
const (
	maxMemoryVersions     = 20
	maxMemoryVersionBytes = 2 << 20
)

// Record is a stored memory. Its record is the length of its JSON, the JSON without the content, and the content.
type Record struct {
	Memory
	// Incarnation tells this memory from others that bore its key before, and from those after it is forgotten.
	Incarnation ident.Incarnation `json:"incarnation"`
	Bytes       int               `json:"bytes"`             // of the content
	History     []keptVersion     `json:"history,omitempty"` // oldest first
	Replaced    *replacement      `json:"replaced,omitempty"`

	stored  []byte // the record as it lies in the store
	Damaged bool   `json:"-"` // it failed its checksum: all that is known of it is its key
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

func (r *Record) Expired(now time.Time) bool {
	return r.ExpiresAt != nil && !r.ExpiresAt.After(now)
}

func (r *Record) session() string {
	if r.SessionID == nil {
		return ""
	}
	return *r.SessionID
}

// encode gives the record as it is stored.
func (r *Record) encode() ([]byte, error) {
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

// decode reads a stored record.
func decode(stored []byte) *Record {
	damaged := &Record{Damaged: true}
	size, n := binary.Uvarint(stored)
	if n <= 0 || size > uint64(len(stored)-n) {
		return damaged
	}
	head := n + int(size)
	rec := &Record{stored: stored}
	if json.Unmarshal(stored[n:head], rec) != nil || len(stored)-head != rec.Bytes {
		return damaged
	}
	rec.Content = string(stored[head:])
	return rec
}

// Load reads records of memories, or of what they were before, by their keys in the store; nil where there is none.
func (svc *Service) Load(ctx context.Context, tenant string, keys [][]byte) ([]*Record, error) {
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: keys})
	if err != nil {
		return nil, err
	}
	out := make([]*Record, len(keys))
	for i, it := range r.Keys {
		if it.Value != nil || it.Damaged {
			out[i] = decode(it.Value)
		}
	}
	return out, nil
}

// Read reads memories by their keys; nil where there is none, or one that is past its expiry or damaged.
func (svc *Service) Read(ctx context.Context, tenant string, p *project.Record, keys []string) ([]*Record, error) {
	out, err := svc.loadLive(ctx, tenant, p, keys)
	for i, rec := range out {
		if rec != nil && rec.Damaged {
			out[i] = nil
		}
	}
	return out, err
}

// loadLive is loadMemories by keys, without what is past its expiry. Damage is reported to the operator.
func (svc *Service) loadLive(ctx context.Context, tenant string, p *project.Record, keys []string) ([]*Record, error) {
	stored := make([][]byte, len(keys))
	for i, key := range keys {
		stored[i] = records.Memory.Key(p.Incarnation, key)
	}
	out, err := svc.Load(ctx, tenant, stored)
	now := svc.db.Now()
	for i, rec := range out {
		switch {
		case rec == nil:
		case rec.Damaged:
			svc.db.Log.Error("a stored memory is damaged", "tenant", tenant, "project", p.ID)
		case rec.Expired(now):
			out[i] = nil
		}
	}
	return out, err
}

// memory reads a memory to change it, expired or not, and expects it unchanged at commit.
func (svc *Service) memory(t *records.Tx, p *project.Record, key string) (*Record, error) {
	expect := store.Expect{Key: records.Memory.Key(p.Incarnation, key)}
	found, err := svc.Load(t.Ctx, t.Tenant, [][]byte{expect.Key})
	if err != nil {
		return nil, err
	}
	if found[0] != nil {
		if found[0].Damaged {
			return nil, errDamaged(key)
		}
		expect.Value = found[0].stored
	}
	t.Batch.Expect = append(t.Batch.Expect, expect)
	return found[0], nil
}

// succeed makes the record the version after old, which goes to the history.
func (r *Record) succeed(t *records.Tx, p *project.Record, old *Record) error {
	r.Version, r.CreatedAt, r.Incarnation = old.Version+1, old.CreatedAt, old.Incarnation
	r.History = append(old.History[:len(old.History):len(old.History)],
		keptVersion{Version: old.Version, Bytes: old.Bytes})
	bytes := 0
	for _, kept := range r.History {
		bytes += kept.Bytes
	}
	for len(r.History) > maxMemoryVersions || bytes > maxMemoryVersionBytes && len(r.History) > 1 {
		bytes -= r.History[0].Bytes
		deleteVersion(t, p, old.Key, r.History[0])
		r.History = r.History[1:]
	}
	return putVersion(t, p, r, old)
}

// put collects the writes that store a record over old, nil where its key is free: the record, time index, expiry,
// and the index that recall searches.
func (svc *Service) put(t *records.Tx, p *project.Record, rec, old *Record) error {
	value, err := rec.encode()
	if err != nil {
		return err
	}
	t.Put(records.Memory.Key(p.Incarnation, rec.Key), value)
	entry, err := rec.entry()
	if err != nil {
		return err
	}
	t.Put(records.MemoryTime.Key(p.Incarnation, rec.UpdatedAt, rec.Key), entry)
	if rec.ExpiresAt != nil {
		t.Put(records.Expiry.Key(*rec.ExpiresAt, records.Memory.Key(p.Incarnation, rec.Key)), []byte{0})
	}
	if old == nil {
		return svc.index.PutDocument(t, p.Incarnation, rec.doc(), rec.Content)
	}
	if !old.UpdatedAt.Equal(rec.UpdatedAt) {
		t.Delete(records.MemoryTime.Key(p.Incarnation, old.UpdatedAt, rec.Key))
	}
	if old.ExpiresAt != nil && (rec.ExpiresAt == nil || !rec.ExpiresAt.Equal(*old.ExpiresAt)) {
		t.Delete(records.Expiry.Key(*old.ExpiresAt, records.Memory.Key(p.Incarnation, rec.Key)))
	}
	return svc.index.PutDocument(t, p.Incarnation, rec.doc(), rec.Content)
}

// putVersion keeps old as what rec was before.
func putVersion(t *records.Tx, p *project.Record, rec, old *Record) error {
	kept := *old
	kept.History = nil
	kept.Replaced = &replacement{At: rec.UpdatedAt, KeyID: rec.KeyID, Agent: rec.Agent}
	value, err := kept.encode()
	t.Put(records.MemoryVersion.Key(p.Incarnation, old.Key, uint32(old.Version)), value)
	return err
}

// deleteMemory collects the writes that leave nothing of a memory.
func (svc *Service) deleteMemory(t *records.Tx, p *project.Record, old *Record) error {
	t.Delete(records.Memory.Key(p.Incarnation, old.Key))
	t.Delete(records.MemoryTime.Key(p.Incarnation, old.UpdatedAt, old.Key))
	if old.ExpiresAt != nil {
		t.Delete(records.Expiry.Key(*old.ExpiresAt, records.Memory.Key(p.Incarnation, old.Key)))
	}
	deleteHistory(t, p, old)
	return svc.index.DeleteDocument(t, p.Incarnation, old.Key)
}

func deleteHistory(t *records.Tx, p *project.Record, old *Record) {
	if old == nil {
		return
	}
	for _, kept := range old.History {
		deleteVersion(t, p, old.Key, kept)
	}
}

func deleteVersion(t *records.Tx, p *project.Record, key string, kept keptVersion) {
	t.Delete(records.MemoryVersion.Key(p.Incarnation, key, uint32(kept.Version)))
}
