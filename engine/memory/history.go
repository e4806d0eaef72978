package memory

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Limits of a memory's kept earlier versions. The previous version is always kept.
const (
	maxVersions     = 20
	maxVersionBytes = 2 << 20 // of content, value and metadata
)

// Version is an earlier version of a memory, with who overwrote it and when.
type Version struct {
	Memory
	Replaced replacement `json:"replaced"`
}

// replacement says who overwrote a version, and when.
type replacement struct {
	At    time.Time `json:"at"`
	KeyID string    `json:"key_id"`
	Agent string    `json:"agent"`
}

// keptVersion identifies an earlier version whose record is kept.
type keptVersion struct {
	Version int `json:"version"`
	Bytes   int `json:"bytes"` // of content, value and metadata
}

// record returns the key of the version's record.
func (v keptVersion) record(pinc ident.Incarnation, key string) []byte {
	return records.MemoryVersion.Key(pinc, key, uint32(v.Version))
}

// History returns a page of the earlier versions of a memory, newest first. It returns not_found if there is no such
// memory, memory_damaged if it cannot be read, and invalid_cursor or out_of_range for an invalid page.
func (svc *Service) History(ctx context.Context, c ident.Caller, projectID, key string, page records.Page) (
	records.List[Version], error,
) {
	out := records.List[Version]{Data: []Version{}}
	p, rec, err := svc.live(ctx, c, projectID, key)
	if err != nil {
		return out, err
	}
	list := [][]byte{[]byte("history"), rec.Incarnation[:]}
	limit, after, err := page.Decode(list...)
	if err != nil {
		return out, err
	}
	before := uint32(1<<32 - 1)
	if len(after) == 4 {
		before = binary.BigEndian.Uint32(after)
	}
	var asked []keptVersion
	for _, kept := range slices.Backward(rec.History) {
		if uint32(kept.Version) >= before {
			continue
		}
		if out.HasMore = len(asked) == limit; out.HasMore {
			out.NextCursor = records.Cursor(binary.BigEndian.AppendUint32(nil, uint32(kept.Version+1)), list...)
			break
		}
		asked = append(asked, kept)
	}
	out.Data, err = svc.versions(ctx, c.Tenant, p.Incarnation, rec, asked)
	return out, err
}

// versions reads some of a memory's earlier versions. It leaves out those that were deleted in the meantime.
func (svc *Service) versions(ctx context.Context, tenant string, pinc ident.Incarnation, rec *Record,
	asked []keptVersion) ([]Version, error) {
	out := []Version{}
	if len(asked) == 0 {
		return out, nil
	}
	keys := make([][]byte, len(asked))
	for i, kept := range asked {
		keys[i] = kept.record(pinc, rec.ID())
	}
	found, err := svc.Load(ctx, tenant, keys)
	if err != nil {
		return out, err
	}
	for _, v := range found {
		if v != nil && v.Damaged {
			return out, errDamaged(rec.ID())
		}
		if v != nil && v.Replaced != nil && v.Incarnation == rec.Incarnation {
			v.ETag = ""
			out = append(out, Version{v.Memory, *v.Replaced})
		}
	}
	return out, nil
}

// succeed makes the record the next version after old, and moves old to the history.
func (r *Record) succeed(t *records.Tx, pinc ident.Incarnation, old *Record) error {
	r.Version, r.CreatedAt, r.Incarnation = old.Version+1+old.Skip, old.CreatedAt, old.Incarnation
	r.History = append(slices.Clip(old.History), keptVersion{Version: old.Version, Bytes: old.size()})
	bytes := 0
	for _, kept := range r.History {
		bytes += kept.Bytes
	}
	for len(r.History) > maxVersions || bytes > maxVersionBytes && len(r.History) > 1 {
		bytes -= r.History[0].Bytes
		t.Delete(r.History[0].record(pinc, r.ID()))
		r.History = r.History[1:]
	}
	kept := *old
	kept.History, kept.Skip = nil, 0
	kept.Replaced = &replacement{At: r.UpdatedAt, KeyID: r.KeyID, Agent: r.Agent}
	value, err := kept.encode()
	t.Put(records.MemoryVersion.Key(pinc, old.ID(), uint32(old.Version)), value)
	return err
}

// deleteHistory adds the writes that delete a memory's earlier versions, if any.
func (r *Record) deleteHistory(t *records.Tx, pinc ident.Incarnation) {
	if r == nil {
		return
	}
	for _, kept := range r.History {
		t.Delete(kept.record(pinc, r.ID()))
	}
}
