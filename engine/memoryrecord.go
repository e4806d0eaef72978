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
	Bytes       int           `json:"bytes"` // of the content
	Parts       int           `json:"parts"`
	History     []keptVersion `json:"history,omitempty"` // oldest first
	Replaced    *replacement  `json:"replaced,omitempty"`

	first   []byte // the first part as it is stored
	damaged bool   // it failed its checksum: all that is known of it is its key
}

// keptVersion names an earlier version whose record is kept.
type keptVersion struct {
	Version int `json:"version"`
	Bytes   int `json:"bytes"`
	Parts   int `json:"parts"`
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

// encode splits the record into the values of its parts, all but the last of them full.
func (r *memoryRecord) encode() ([][]byte, error) {
	bare := *r
	bare.Content, bare.Bytes = "", len(r.Content)
	for bare.Parts = 1; ; bare.Parts++ {
		meta, err := json.Marshal(&bare)
		if err != nil {
			return nil, err
		}
		size := binary.MaxVarintLen32 + len(meta) + len(r.Content)
		if size > bare.Parts*maxBodyPart {
			continue
		}
		whole := binary.AppendUvarint(make([]byte, 0, size), uint64(len(meta)))
		whole = append(append(whole, meta...), r.Content...)
		r.Bytes, r.Parts = bare.Bytes, bare.Parts
		parts := make([][]byte, 0, r.Parts)
		for range r.Parts {
			n := min(len(whole), maxBodyPart)
			parts, whole = append(parts, whole[:n]), whole[n:]
		}
		return parts, nil
	}
}

// decodeMemory reads a record from its parts, or only what it says of itself where there is but the first of many.
func decodeMemory(parts []store.Item) *memoryRecord {
	damaged := &memoryRecord{damaged: true}
	first := parts[0].Value
	size, n := binary.Uvarint(first)
	if n <= 0 || size > uint64(len(first)-n) {
		return damaged
	}
	head := n + int(size)
	rec := &memoryRecord{first: first}
	if err := json.Unmarshal(first[n:head], rec); err != nil {
		return damaged
	}
	if len(parts) == 1 && rec.Parts > 1 {
		return rec
	}
	content := joinBody(parts)
	if len(content)-head != rec.Bytes || len(parts) != rec.Parts {
		return damaged
	}
	rec.Content = string(content[head:])
	return rec
}

// loadMemories reads records by what their keys in the store begin with, the part left out; nil where there is none.
func (e *Engine) loadMemories(ctx context.Context, tenant string, prefixes [][]byte) ([]*memoryRecord, error) {
	out := make([]*memoryRecord, len(prefixes))
	q := store.Query{Keys: make([][]byte, len(prefixes))}
	for i, prefix := range prefixes {
		q.Keys[i] = append(prefix[:len(prefix):len(prefix)], 0)
	}
	r, err := e.store.Read(ctx, tenant, q)
	if err != nil {
		return nil, err
	}
	var long []int // those of several parts, to be read whole from one state
	var whole store.Query
	for i, it := range r.Keys {
		if it.Value == nil && !it.Damaged {
			continue
		}
		if out[i] = decodeMemory(r.Keys[i : i+1]); out[i].Parts > 1 {
			long, whole.Ranges = append(long, i), append(whole.Ranges, prefixRange(prefixes[i]))
		}
	}
	if len(long) == 0 {
		return out, nil
	}
	if r, err = e.store.Read(ctx, tenant, whole); err != nil {
		return nil, err
	}
	for n, i := range long {
		out[i] = nil // it may be gone meanwhile
		if len(r.Ranges[n]) > 0 {
			out[i] = decodeMemory(r.Ranges[n])
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
	prefixes := make([][]byte, len(keys))
	for i, key := range keys {
		prefixes[i] = memoryParts(p, key)
	}
	out, err := e.loadMemories(ctx, tenant, prefixes)
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

func memoryParts(p *project, key string) []byte {
	k := memoryKey(p.Incarnation, key, 0)
	return k[:len(k)-1]
}

// memory reads a memory to change it, expired or not, and expects it unchanged at commit.
func (t *tx) memory(p *project, key string) (*memoryRecord, error) {
	found, err := t.e.loadMemories(t.ctx, t.tenant, [][]byte{memoryParts(p, key)})
	if err != nil {
		return nil, err
	}
	expect := store.Expect{Key: memoryKey(p.Incarnation, key, 0)}
	if found[0] != nil {
		if found[0].damaged {
			return nil, errDamagedMemory(key)
		}
		expect.Value = found[0].first // which every change writes anew
	}
	t.batch.Expect = append(t.batch.Expect, expect)
	return found[0], nil
}

// succeed makes the record the version after old, which goes to the history.
func (r *memoryRecord) succeed(t *tx, p *project, old *memoryRecord) error {
	r.Version, r.CreatedAt, r.Incarnation = old.Version+1, old.CreatedAt, old.Incarnation
	r.History = append(old.History[:len(old.History):len(old.History)],
		keptVersion{Version: old.Version, Bytes: old.Bytes, Parts: old.Parts})
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

// putMemory collects the writes that store a record over old, nil where its key is free: parts, time index, expiry, and
// the index that recall searches.
func (t *tx) putMemory(p *project, rec, old *memoryRecord) error {
	parts, err := rec.encode()
	if err != nil {
		return err
	}
	for i, value := range parts {
		t.put(memoryKey(p.Incarnation, rec.Key, i), value)
	}
	entry, err := rec.entry()
	if err != nil {
		return err
	}
	t.put(memoryTimeKey(p.Incarnation, rec.UpdatedAt, rec.Key), entry)
	if rec.ExpiresAt != nil {
		t.put(expiryKey(*rec.ExpiresAt, memoryKey(p.Incarnation, rec.Key, 0)), []byte{0})
	}
	if old == nil {
		return t.putDocument(p.Incarnation, rec.doc(), rec.Content)
	}
	for i := rec.Parts; i < old.Parts; i++ {
		t.delete(memoryKey(p.Incarnation, rec.Key, i))
	}
	if !old.UpdatedAt.Equal(rec.UpdatedAt) {
		t.delete(memoryTimeKey(p.Incarnation, old.UpdatedAt, rec.Key))
	}
	if old.ExpiresAt != nil && (rec.ExpiresAt == nil || !rec.ExpiresAt.Equal(*old.ExpiresAt)) {
		t.delete(expiryKey(*old.ExpiresAt, memoryKey(p.Incarnation, rec.Key, 0)))
	}
	return t.putDocument(p.Incarnation, rec.doc(), rec.Content)
}

// putMemoryVersion keeps old as what rec was before.
func (t *tx) putMemoryVersion(p *project, rec, old *memoryRecord) error {
	kept := *old
	kept.History = nil
	kept.Replaced = &replacement{At: rec.UpdatedAt, KeyID: rec.KeyID, Agent: rec.Agent}
	parts, err := kept.encode()
	for i, value := range parts {
		t.put(memoryVersionKey(p.Incarnation, old.Key, old.Version, i), value)
	}
	rec.History[len(rec.History)-1].Parts = len(parts)
	return err
}

// deleteMemory collects the writes that leave nothing of a memory.
func (t *tx) deleteMemory(p *project, old *memoryRecord) error {
	for i := range old.Parts {
		t.delete(memoryKey(p.Incarnation, old.Key, i))
	}
	t.delete(memoryTimeKey(p.Incarnation, old.UpdatedAt, old.Key))
	if old.ExpiresAt != nil {
		t.delete(expiryKey(*old.ExpiresAt, memoryKey(p.Incarnation, old.Key, 0)))
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
	for i := range kept.Parts {
		t.delete(memoryVersionKey(p.Incarnation, key, kept.Version, i))
	}
}
