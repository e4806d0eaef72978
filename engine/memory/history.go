package memory

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Version is what a memory was before: with who overwrote it, and when.
type Version struct {
	Memory
	Replaced replacement `json:"replaced"`
}

// History pages through what a memory was before, the newest version first.
func (svc *Service) History(ctx context.Context, c access.Caller, projectID, key string, page records.Page) (
	records.List[Version], error,
) {
	out := records.List[Version]{Data: []Version{}}
	limit, after, err := page.Decode()
	if err != nil {
		return out, err
	}
	before := uint32(1<<32 - 1)
	if after != nil {
		if len(after) != 4 {
			return out, fault.InvalidField("cursor", "invalid_cursor", "must be the next_cursor of an earlier page")
		}
		before = binary.BigEndian.Uint32(after)
	}
	p, rec, err := svc.live(ctx, c, projectID, key)
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
	out.Data, err = svc.pastVersions(ctx, c.Tenant, p, rec, asked)
	return out, err
}

// pastVersions reads some of what a memory was before. A version that went meanwhile is left out.
func (svc *Service) pastVersions(ctx context.Context, tenant string, p *project.Record, rec *Record, asked []keptVersion) (
	[]Version, error,
) {
	out := []Version{}
	if len(asked) == 0 {
		return out, nil
	}
	keys := make([][]byte, len(asked))
	for i, kept := range asked {
		keys[i] = records.MemoryVersion.Key(p.Incarnation, rec.Key, uint32(kept.Version))
	}
	versions, err := svc.Load(ctx, tenant, keys)
	if err != nil {
		return out, err
	}
	for _, v := range versions {
		if v != nil && v.Damaged {
			return out, errDamaged(rec.Key)
		}
		if v != nil && v.Replaced != nil && v.Incarnation == rec.Incarnation {
			out = append(out, Version{v.Memory, *v.Replaced})
		}
	}
	return out, nil
}
