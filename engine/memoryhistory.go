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
	var prefixes [][]byte
	for _, kept := range slices.Backward(rec.History) {
		if uint32(kept.Version) >= before {
			continue
		}
		if out.HasMore = len(prefixes) == limit; out.HasMore {
			last := binary.BigEndian.AppendUint32(nil, uint32(kept.Version+1))
			cursor := base64.RawURLEncoding.EncodeToString(last)
			out.NextCursor = &cursor
			break
		}
		k := memoryVersionKey(p.Incarnation, key, kept.Version, 0)
		prefixes = append(prefixes, k[:len(k)-1])
	}
	versions, err := e.loadMemories(ctx, c.Tenant, prefixes)
	if err != nil {
		return out, err
	}
	for _, v := range versions {
		if v != nil && v.damaged {
			return out, errDamagedMemory(key)
		}
		if v != nil && v.Replaced != nil && v.Incarnation == rec.Incarnation { // else it went meanwhile
			out.Data = append(out.Data, MemoryVersion{v.Memory, *v.Replaced})
		}
	}
	return out, nil
}
