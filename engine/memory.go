package engine

import (
	"context"
	"math"
	"time"
)

// Categories of memories.
const (
	categoryCore         = "core"         // facts for good: they never expire
	categoryDaily        = "daily"        // notes that expire by the setting daily_memory_days
	categoryConversation = "conversation" // context of a session, which they outlive
)

var memoryCategories = []string{categoryCore, categoryDaily, categoryConversation}

// The limits of one memory.
const (
	MaxMemoryContent = 1 << 20 // bytes
	maxMemoryTags    = 64
	maxMemoryTag     = 128 // bytes
	maxMemorySource  = 256 // bytes
	maxMemoryFuture  = 100 * 366 * 24 * time.Hour
)

// defaultImportance is that of memories that name none.
const defaultImportance = 0.5

// MemorySpec is a memory to be stored. Without a key it gets one of its own; without a category it is core; a
// conversation memory without a session belongs to `dashboard`.
type MemorySpec struct {
	Key        string     `json:"key,omitempty"`
	Content    string     `json:"content"`
	Category   string     `json:"category,omitempty"`
	Tags       []string   `json:"tags,omitempty"`
	Source     string     `json:"source,omitempty"`
	SessionID  string     `json:"session_id,omitempty"`
	Importance *float64   `json:"importance,omitempty"` // 0 to 1
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
}

// Memory is one thing remembered, as of one version. KeyID and Agent say who wrote that version.
type Memory struct {
	Key        string     `json:"key"`
	Content    string     `json:"content"`
	Category   string     `json:"category"`
	Tags       []string   `json:"tags"`
	Source     string     `json:"source"`
	SessionID  *string    `json:"session_id"`
	Importance float64    `json:"importance"`
	ExpiresAt  *time.Time `json:"expires_at"`
	Version    int        `json:"version"`
	CreatedAt  time.Time  `json:"created_at"` // of the first version
	UpdatedAt  time.Time  `json:"updated_at"` // of this one; a memory's time in lists and in recall
	KeyID      string     `json:"key_id"`
	Agent      string     `json:"agent"`
	// Damaged says that the stored bytes fail their checksum: the content is lost.
	Damaged bool `json:"damaged,omitempty"`
}

// Forgotten answers a request to forget. Forgotten is false where there was no such memory.
type Forgotten struct {
	Key       string `json:"key"`
	Forgotten bool   `json:"forgotten"`
}

// stored is the answer to a store, as it is kept for an idempotent request. It holds nothing that the client said: the
// rest of the answer is in the same request, and what is forgotten must be nowhere.
type stored struct {
	Made      string     `json:"made,omitempty"` // the key, where it is of our making
	Created   bool       `json:"created,omitempty"`
	Version   int        `json:"version"`
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt time.Time  `json:"updated_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// StoreMemory keeps a memory; the same key overwrites all of it, and what was before goes to its history.
func (e *Engine) StoreMemory(ctx context.Context, c Caller, once Once, projectID string, spec MemorySpec) (
	m Memory, created bool, err error,
) {
	if err := spec.complete(); err != nil {
		return Memory{}, false, err
	}
	use := e.memoryUse.reserve(c.Tenant)
	out, err := update(ctx, e, c, once, func(t *tx) (stored, error) { return spec.store(e, t, c, projectID, use) })
	use.end(err == nil)
	if err != nil {
		return Memory{}, false, err
	}
	m = spec.memory(c)
	if m.Key == "" {
		m.Key = out.Made
	}
	m.Version, m.CreatedAt, m.UpdatedAt, m.ExpiresAt = out.Version, out.CreatedAt, out.UpdatedAt, out.ExpiresAt
	return m, out.Created, nil
}

// store collects the writes that make the spec its key's next version.
func (s *MemorySpec) store(e *Engine, t *tx, c Caller, projectID string, use *reservation) (out stored, err error) {
	p, err := t.project(c, projectID)
	if err != nil {
		return out, err
	}
	rec := &memoryRecord{Memory: s.memory(c)}
	if rec.Key == "" {
		rec.Key = e.newID("mem_", 10)
		out.Made = rec.Key
	}
	old, err := t.memory(p, rec.Key)
	if err != nil {
		return out, err
	}
	rec.Version, rec.CreatedAt, rec.UpdatedAt = 1, t.now, t.now
	if rec.ExpiresAt, err = e.memoryExpiry(p, s, t.now); err != nil {
		return out, err
	}
	if old != nil && !old.expired(t.now) {
		if err := rec.succeed(t, p, old); err != nil {
			return out, err
		}
	} else {
		out.Created = true
		rec.Incarnation = e.newIncarnation()
		t.deleteMemoryHistory(p, old)
	}
	if err := t.e.holdMemory(t.ctx, use, old, rec); err != nil {
		return out, err
	}
	out.Version, out.CreatedAt, out.UpdatedAt, out.ExpiresAt = rec.Version, rec.CreatedAt, rec.UpdatedAt, rec.ExpiresAt
	return out, t.putMemory(p, rec, old)
}

// memory is the spec as it is shown, apart from what storing it decides.
func (s *MemorySpec) memory(c Caller) Memory {
	m := Memory{Key: s.Key, Content: s.Content, Category: s.Category, Tags: s.Tags, Source: s.Source,
		Importance: defaultImportance, KeyID: c.KeyID, Agent: c.Agent}
	if s.SessionID != "" {
		m.SessionID = &s.SessionID
	}
	if s.Importance != nil {
		m.Importance = math.Abs(*s.Importance) // -0 is 0
	}
	return m
}

// memoryExpiry is when a memory stored now goes. The setting counts as it is now: a later change of it moves no memory
// that is stored already.
func (e *Engine) memoryExpiry(p *project, s *MemorySpec, now time.Time) (*time.Time, error) {
	if s.ExpiresAt != nil {
		at := s.ExpiresAt.UTC().Truncate(time.Millisecond)
		if !at.After(now) || at.After(now.Add(maxMemoryFuture)) {
			return nil, invalidField("expires_at", "out_of_range", "must lie in the future, at most 100 years; now is %s",
				now.Format(time.RFC3339))
		}
		return &at, nil
	}
	if s.Category != categoryDaily {
		return nil, nil
	}
	settings, err := e.settings(p.Set)
	if err != nil {
		return nil, err
	}
	at := now.AddDate(0, 0, settings.DailyMemoryDays)
	return &at, nil
}

// GetMemory answers a memory.
func (e *Engine) GetMemory(ctx context.Context, c Caller, projectID, key string) (Memory, error) {
	_, rec, err := e.liveMemory(ctx, c, projectID, key)
	if err != nil {
		return Memory{}, err
	}
	return rec.Memory, nil
}

// liveMemory reads a memory that must be there.
func (e *Engine) liveMemory(ctx context.Context, c Caller, projectID, key string) (*project, *memoryRecord, error) {
	p, _, _, err := e.readProject(ctx, c, projectID, nil)
	if err != nil {
		return nil, nil, err
	}
	if !validID(key) {
		return nil, nil, errorf(NotFound, "not_found", "no such memory")
	}
	found, err := e.loadLive(ctx, c.Tenant, p, []string{key})
	switch {
	case err != nil:
	case found[0] == nil:
		err = errorf(NotFound, "not_found", "no memory %q", key)
	case found[0].damaged:
		err = errDamagedMemory(key)
	default:
		return p, found[0], nil
	}
	return nil, nil, err
}

// ForgetMemory removes a memory, its history and its place in the index in one commit; of a memory with many distinct
// words the last postings go later, and count for nothing until then. Forgetting what is not there succeeds and says
// so.
func (e *Engine) ForgetMemory(ctx context.Context, c Caller, once Once, projectID, key string) (Forgotten, error) {
	use := e.memoryUse.reserve(c.Tenant)
	forgotten, err := update(ctx, e, c, once, func(t *tx) (bool, error) {
		p, err := t.project(c, projectID)
		if err != nil || !validID(key) {
			return false, err
		}
		old, err := t.memory(p, key)
		if isDamagedMemory(err) {
			return true, t.deleteDamagedMemory(p, key)
		}
		if err != nil || old == nil {
			return false, err
		}
		if err := e.holdMemory(t.ctx, use, old, nil); err != nil {
			return false, err
		}
		return !old.expired(t.now), t.deleteMemory(p, old)
	})
	use.end(err == nil)
	return Forgotten{key, forgotten}, err
}
