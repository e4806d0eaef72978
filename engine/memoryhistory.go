package engine

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"slices"
)

// MemoryVersion is what a memory was before: with who overwrote it, and when.
type MemoryVersion struct {
	Memory
	Replaced replacement `json:"replaced"`
}

// MemoryHistory pages through what a memory was before, the newest version first.
func (e *Engine) MemoryHistory(ctx context.Context, c Caller, projectID, key string, page Page) (
	List[MemoryVersion], error,
) {
	out := List[MemoryVersion]{Data: []MemoryVersion{}}
	limit, after, err := page.decode()
	if err != nil {
		return out, err
	}
	before := uint32(1<<32 - 1)
	if after != nil {
		if len(after) != 4 {
			return out, invalidField("cursor", "invalid_cursor", "must be the next_cursor of an earlier page")
		}
		before = binary.BigEndian.Uint32(after)
	}
	p, rec, err := e.liveMemory(ctx, c, projectID, key)
	if err != nil {
		return out, err
	}
	var asked []keptVersion
	for _, kept := range slices.Backward(rec.History) {
		if uint32(kept.Version) >= before {
			continue
		}
		if out.HasMore = len(asked) == limit; out.HasMore {
			last := binary.BigEndian.AppendUint32(nil, uint32(kept.Version+1))
			cursor := base64.RawURLEncoding.EncodeToString(last)
			out.NextCursor = &cursor
			break
		}
		asked = append(asked, kept)
	}
	out.Data, err = e.pastVersions(ctx, c.Tenant, p, rec, asked)
	return out, err
}

// pastVersions reads some of what a memory was before. A version that went meanwhile is left out.
func (e *Engine) pastVersions(ctx context.Context, tenant string, p *project, rec *memoryRecord, asked []keptVersion) (
	[]MemoryVersion, error,
) {
	out := []MemoryVersion{}
	if len(asked) == 0 {
		return out, nil
	}
	keys := make([][]byte, len(asked))
	for i, kept := range asked {
		keys[i] = kindMemoryVersion.Key(p.Incarnation, rec.Key, uint32(kept.Version))
	}
	versions, err := e.loadMemories(ctx, tenant, keys)
	if err != nil {
		return out, err
	}
	for _, v := range versions {
		if v != nil && v.damaged {
			return out, errDamagedMemory(rec.Key)
		}
		if v != nil && v.Replaced != nil && v.Incarnation == rec.Incarnation {
			out = append(out, MemoryVersion{v.Memory, *v.Replaced})
		}
	}
	return out, nil
}
