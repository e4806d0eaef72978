package memory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Record is a stored memory, or one of its earlier versions. It is stored as the length of the record's JSON, the JSON
// without the content, and the content. For a Damaged record nothing else is known.
type Record struct {
	Memory
	// Incarnation distinguishes this memory from earlier and later ones with the same key.
	Incarnation ident.Incarnation `json:"incarnation"`
	Bytes       int               `json:"bytes"`             // of the content
	History     []keptVersion     `json:"history,omitempty"` // oldest first
	Replaced    *replacement      `json:"replaced,omitempty"`
	Skip        int               `json:"skip,omitempty"` // version numbers that may have been used and lost
	Sessions    sessions          `json:"sessions,omitempty"`

	stored []byte // the record as stored
}

// lostVersions is larger than the number of versions of a memory that can be lost at once.
const lostVersions = 1 << 20

// SkipVersions returns a stored memory whose next version skips numbers, because versions of it may be lost. It returns
// nil if the memory cannot be decoded.
func SkipVersions(stored []byte) ([]byte, error) {
	r := decode(stored)
	if r.Damaged {
		return nil, nil
	}
	r.Skip += lostVersions
	return r.encode()
}

func (r *Record) expired(now time.Time) bool {
	return r.ExpiresAt != nil && !r.ExpiresAt.After(now)
}

// live returns the record if it is not nil and has not expired, and otherwise nil.
func (r *Record) live(now time.Time) *Record {
	if r == nil || r.expired(now) {
		return nil
	}
	return r
}

func (r *Record) session() string {
	if r.SessionID == nil {
		return ""
	}
	return *r.SessionID
}

// encode returns the record as it is stored.
func (r *Record) encode() ([]byte, error) {
	r.Bytes = len(r.Content)
	bare := *r
	bare.Content, bare.ETag, bare.Merged = "", "", false
	var encoded bytes.Buffer
	e := json.NewEncoder(&encoded)
	e.SetEscapeHTML(false) // the value is stored as it was sent
	if err := e.Encode(&bare); err != nil {
		return nil, err
	}
	meta := bytes.TrimSuffix(encoded.Bytes(), []byte{'\n'})
	whole := make([]byte, 0, binary.MaxVarintLen32+len(meta)+len(r.Content))
	whole = binary.AppendUvarint(whole, uint64(len(meta)))
	return append(append(whole, meta...), r.Content...), nil
}

// decode decodes a stored record.
func decode(stored []byte) *Record {
	damaged := &Record{Memory: Memory{Damaged: true}}
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
	rec.Trust = cmp.Or(rec.Trust, TrustModel) // as of records without it
	rec.ETag = etag(rec.Version, rec.Incarnation)
	return rec
}

// Load reads records of memories, or of their earlier versions, by their keys in the store; nil where there is none.
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

// Versions reads versions of memories by their identities. A version is nil if it is no longer stored or, unless alive
// is nil, if the memory has ended by that time.
func (svc *Service) Versions(ctx context.Context, tenant string, pinc ident.Incarnation, names []reminder.Memory,
	alive *time.Time) ([]*Record, error) {
	out := make([]*Record, 0, len(names))
	for part := range slices.Chunk(names, records.MaxOfOneRead/2) {
		keys := make([][]byte, 0, 2*len(part))
		for _, m := range part {
			keys = append(keys, records.Memory.Key(pinc, m.Key), records.MemoryVersion.Key(pinc, m.Key, uint32(m.Version)))
		}
		found, err := svc.Load(ctx, tenant, keys)
		if err != nil {
			return nil, err
		}
		for i, m := range part {
			out = append(out, versionOf(m, found[2*i:2*i+2], alive))
		}
	}
	return out, nil
}

// versionOf returns a version of a memory, which may be its newest record or an earlier one.
func versionOf(m reminder.Memory, found []*Record, alive *time.Time) *Record {
	if now := found[0]; alive != nil && (now == nil || now.Incarnation != m.Incarnation || now.expired(*alive)) {
		return nil
	}
	for _, r := range found {
		if r != nil && !r.Damaged && r.Incarnation == m.Incarnation && r.Version == m.Version {
			return r
		}
	}
	return nil
}

// Read reads memories by their keys; nil for those that are missing, expired or damaged.
func (svc *Service) Read(ctx context.Context, tenant string, p *project.Record, keys []string) ([]*Record, error) {
	out, err := svc.readAll(ctx, tenant, p, keys)
	for i, rec := range out {
		if rec != nil && rec.Damaged {
			out[i] = nil
		}
	}
	return out, err
}

// readAll reads memories by their keys; nil for those that are missing or expired. It logs damaged ones for the
// operator.
func (svc *Service) readAll(ctx context.Context, tenant string, p *project.Record, keys []string) ([]*Record, error) {
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
		case rec.expired(now):
			out[i] = nil
		}
	}
	return out, err
}

// expect reads a memory in order to change it, expired or not, and expects it unchanged at commit. It may return
// memory_damaged.
func (svc *Service) expect(t *records.Tx, pinc ident.Incarnation, key string) (*Record, error) {
	found, err := svc.expectAll(t, pinc, key)
	if err != nil {
		return nil, err
	}
	if found[0] != nil && found[0].Damaged {
		return nil, errDamaged(key)
	}
	return found[0], nil
}

// expectAll is like expect for several memories; nil stands for a missing one. A damaged one is returned as damaged,
// and is not a precondition, because its bytes are unknown.
func (svc *Service) expectAll(t *records.Tx, pinc ident.Incarnation, keys ...string) ([]*Record, error) {
	stored := make([][]byte, len(keys))
	for i, key := range keys {
		stored[i] = records.Memory.Key(pinc, key)
	}
	found, err := svc.Load(t.Ctx, t.Tenant, stored)
	if err != nil {
		return nil, err
	}
	for i, rec := range found {
		switch {
		case rec == nil:
			t.Batch.Expect = append(t.Batch.Expect, store.Expect{Key: stored[i]})
		case !rec.Damaged:
			t.Batch.Expect = append(t.Batch.Expect, store.Expect{Key: stored[i], Value: rec.stored})
		}
	}
	return found, nil
}

// put adds the writes that store a record over old, which is nil if the key is free: the record with its entries, and
// its documents in the index that recall searches. It does not write the earlier versions.
func (svc *Service) put(t *records.Tx, pinc ident.Incarnation, rec, old *Record) error {
	if err := svc.putRecord(t, pinc, rec, old); err != nil {
		return err
	}
	return svc.index.PutDocuments(t, pinc, svc.analyse(rec))
}

// putRecord adds the writes of a record and of its entries in the index by time and in the expiry index.
func (svc *Service) putRecord(t *records.Tx, pinc ident.Incarnation, rec, old *Record) error {
	value, err := rec.encode()
	if err != nil {
		return err
	}
	if old != nil {
		old.deleteEntries(t, pinc)
	}
	t.Put(records.Memory.Key(pinc, rec.ID()), value)
	if err := t.PutJSON(records.MemoryTime.Key(pinc, rec.placed(), rec.ID()), rec.entry()); err != nil {
		return err
	}
	if rec.ExpiresAt != nil {
		t.Put(rec.expiryKey(pinc), []byte{0})
	}
	return nil
}

// delete adds the writes that delete everything of a memory.
func (svc *Service) delete(t *records.Tx, pinc ident.Incarnation, old *Record) error {
	t.Delete(records.Memory.Key(pinc, old.ID()))
	old.deleteEntries(t, pinc)
	old.deleteHistory(t, pinc)
	return svc.index.DeleteDocument(t, pinc, old.ID())
}

// deleteEntries deletes a memory's entries in the index by time and the expiry index. What the batch later puts under
// these keys stays.
func (r *Record) deleteEntries(t *records.Tx, pinc ident.Incarnation) {
	t.Delete(records.MemoryTime.Key(pinc, r.placed(), r.ID()))
	if r.ExpiresAt != nil {
		t.Delete(r.expiryKey(pinc))
	}
}

// expiryKey returns the key of the memory's entry in the expiry index.
func (r *Record) expiryKey(pinc ident.Incarnation) []byte {
	return records.Expiry.Key(*r.ExpiresAt, records.Memory.Key(pinc, r.ID()))
}

// deleteDamaged adds the writes that delete what can be found of a memory whose record cannot be read. With a filter it
// keeps the memory unless an entry in the index by time shows that it matches.
func (svc *Service) deleteDamaged(t *records.Tx, pinc ident.Incarnation, key string, f *Filter) (bool, error) {
	passes := f == nil
	var entries [][]byte
	for it, err := range svc.db.Scan(t.Ctx, t.Tenant, records.MemoryTime.Under(pinc)) {
		if err != nil {
			return false, err
		}
		if e, whole := entryOf(it); e.id == key {
			passes = passes || whole && !f.NeedsRecord() && f.matches(&e, t.Now)
			entries = append(entries, e.keys(pinc)...)
		}
	}
	if !passes {
		return false, nil
	}
	if err := svc.index.DeleteDocument(t, pinc, key); err != nil {
		return false, err
	}
	for _, key := range entries {
		t.Delete(key)
	}
	t.Delete(records.Memory.Key(pinc, key))
	versions := records.MemoryVersion.Under2(pinc, key)
	versions.KeysOnly = true
	for it, err := range svc.db.Scan(t.Ctx, t.Tenant, versions) {
		if err != nil {
			return false, err
		}
		t.Delete(it.Key)
	}
	return true, nil
}

// Sweep deletes a chunk of a deleted project's memories, and reports whether there was any.
func (svc *Service) Sweep(ctx context.Context, tenant string, pinc ident.Incarnation) (more bool, err error) {
	rng := records.MemoryTime.Under(pinc)
	rng.Limit = records.SweepChunk / 4
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return false, err
	}
	var b store.Batch
	for _, it := range r.Ranges[0] {
		e, _ := entryOf(it)
		b.Delete = append(b.Delete, e.keys(pinc)...)
	}
	if len(b.Delete) > 0 {
		return true, svc.db.Commit(ctx, tenant, b)
	}
	for _, rng := range []store.Range{records.Memory.Under(pinc), records.MemoryVersion.Under(pinc),
		records.AdmitLine.Under(pinc)} {
		if more, err := svc.db.DeleteRange(ctx, tenant, rng); more || err != nil {
			return more, err
		}
	}
	return false, nil
}
