package memory

import (
	"context"
	"math"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Categories of memories.
const (
	categoryCore         = "core"         // facts for good: they never expire
	CategoryDaily        = "daily"        // notes that expire by the setting daily_memory_days
	CategoryConversation = "conversation" // context of a session, which they outlive
)

var categories = []string{categoryCore, CategoryDaily, CategoryConversation}

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

// Spec is a memory to be stored. Without a key it gets one of its own; without a category it is core; a
// conversation memory without a session belongs to `dashboard`.
type Spec struct {
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

// Store keeps a memory; the same key overwrites all of it, and what was before goes to its history.
func (svc *Service) Store(ctx context.Context, c access.Caller, once access.Once, projectID string, spec Spec) (
	m Memory, created bool, err error,
) {
	if err := spec.complete(); err != nil {
		return Memory{}, false, err
	}
	use := svc.use.Reserve(c.Tenant)
	out, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (stored, error) { return spec.store(svc, t, c, projectID, use) })
	use.End(err == nil)
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
func (s *Spec) store(svc *Service, t *records.Tx, c access.Caller, projectID string, use *records.Reservation) (out stored, err error) {
	p, err := svc.projects.Project(t, c, projectID)
	if err != nil {
		return out, err
	}
	rec := &Record{Memory: s.memory(c)}
	if rec.Key == "" {
		rec.Key = svc.db.NewID("mem_", 10)
		out.Made = rec.Key
	}
	old, err := svc.memory(t, p, rec.Key)
	if err != nil {
		return out, err
	}
	rec.Version, rec.CreatedAt, rec.UpdatedAt = 1, t.Now, t.Now
	if rec.ExpiresAt, err = svc.expiry(p, s, t.Now); err != nil {
		return out, err
	}
	if old != nil && !old.Expired(t.Now) {
		if err := rec.succeed(t, p, old); err != nil {
			return out, err
		}
	} else {
		out.Created = true
		rec.Incarnation = svc.db.NewIncarnation()
		deleteHistory(t, p, old)
	}
	if err := svc.holdReplacing(t.Ctx, use, old, rec); err != nil {
		return out, err
	}
	out.Version, out.CreatedAt, out.UpdatedAt, out.ExpiresAt = rec.Version, rec.CreatedAt, rec.UpdatedAt, rec.ExpiresAt
	return out, svc.put(t, p, rec, old)
}

// memory is the spec as it is shown, apart from what storing it decides.
func (s *Spec) memory(c access.Caller) Memory {
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

// expiry is when a memory stored now goes. The setting counts as it is now: a later change of it moves no memory
// that is stored already.
func (svc *Service) expiry(p *project.Record, s *Spec, now time.Time) (*time.Time, error) {
	if s.ExpiresAt != nil {
		at := s.ExpiresAt.UTC().Truncate(time.Millisecond)
		if !at.After(now) || at.After(now.Add(maxMemoryFuture)) {
			return nil, fault.InvalidField("expires_at", "out_of_range", "must lie in the future, at most 100 years; now is %s",
				now.Format(time.RFC3339))
		}
		return &at, nil
	}
	if s.Category != CategoryDaily {
		return nil, nil
	}
	settings, err := svc.projects.WithDefaults(p.Set)
	if err != nil {
		return nil, err
	}
	at := now.AddDate(0, 0, settings.DailyMemoryDays)
	return &at, nil
}

// Get answers a memory.
func (svc *Service) Get(ctx context.Context, c access.Caller, projectID, key string) (Memory, error) {
	_, rec, err := svc.live(ctx, c, projectID, key)
	if err != nil {
		return Memory{}, err
	}
	return rec.Memory, nil
}

// live reads a memory that must be there.
func (svc *Service) live(ctx context.Context, c access.Caller, projectID, key string) (*project.Record, *Record, error) {
	p, _, _, err := svc.projects.Read(ctx, c, projectID, nil)
	if err != nil {
		return nil, nil, err
	}
	if !ident.ValidID(key) {
		return nil, nil, fault.Errorf(fault.NotFound, "not_found", "no such memory")
	}
	found, err := svc.loadLive(ctx, c.Tenant, p, []string{key})
	switch {
	case err != nil:
	case found[0] == nil:
		err = fault.Errorf(fault.NotFound, "not_found", "no memory %q", key)
	case found[0].Damaged:
		err = errDamaged(key)
	default:
		return p, found[0], nil
	}
	return nil, nil, err
}

// Forget removes a memory, its history and its place in the index in one commit; of a memory with many distinct
// words the last postings go later, and count for nothing until then. Forgetting what is not there succeeds and says
// so.
func (svc *Service) Forget(ctx context.Context, c access.Caller, once access.Once, projectID, key string) (Forgotten, error) {
	use := svc.use.Reserve(c.Tenant)
	forgotten, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (bool, error) {
		p, err := svc.projects.Project(t, c, projectID)
		if err != nil || !ident.ValidID(key) {
			return false, err
		}
		old, err := svc.memory(t, p, key)
		if isDamaged(err) {
			return true, svc.deleteDamaged(t, p, key)
		}
		if err != nil || old == nil {
			return false, err
		}
		if err := svc.holdReplacing(t.Ctx, use, old, nil); err != nil {
			return false, err
		}
		return !old.Expired(t.Now), svc.deleteMemory(t, p, old)
	})
	use.End(err == nil)
	return Forgotten{key, forgotten}, err
}
