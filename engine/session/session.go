package session

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Spec asks for a session.
type Spec struct {
	ID    string `json:"id,omitempty"`
	Kind  string `json:"kind,omitempty"` // chat (default) or background
	Agent string `json:"agent,omitempty"`
	Title string `json:"title,omitempty"`
}

// Session is one conversation, as listed.
type Session struct {
	ID              string     `json:"id"`
	Kind            string     `json:"kind"`
	Agent           string     `json:"agent"`
	Title           string     `json:"title"`
	Turns           uint32     `json:"turns"`
	Messages        uint64     `json:"messages"`
	Tokens          uint64     `json:"tokens"`
	Summary         *string    `json:"summary"`
	SummarizedCount uint64     `json:"summarized_count"`
	CreatedAt       *time.Time `json:"created_at"`
	LastActivityAt  *time.Time `json:"last_activity_at"`
}

// Unborn stands for the incarnation of a session that does not exist yet, so that deleting it finds its decisions too.
func Unborn(session string) ident.Incarnation {
	sum := sha256.Sum256([]byte("unborn session " + session))
	return ident.Incarnation(sum[:8])
}

// Kinds of sessions.
const (
	KindChat       = "chat"
	KindBackground = "background"
)

// Head is a session's own record: what identifies its state. Every commit to the session expects it unchanged, and each
// turn raises Revision, which makes turns a total order.
type Head struct {
	Incarnation  ident.Incarnation `json:"incarnation"`
	Revision     uint64            `json:"revision"`
	Turns        uint32            `json:"turns"`
	Messages     uint64            `json:"messages"`
	Tokens       [2]uint64         `json:"tokens"`
	Bytes        uint64            `json:"bytes,omitempty"` // of the message bodies
	OpenCalls    int               `json:"open_calls,omitempty"`
	Kind         string            `json:"kind"`
	Agent        string            `json:"agent,omitempty"`
	Title        string            `json:"title,omitempty"`
	Created      time.Time         `json:"created_at"`
	LastActivity time.Time         `json:"last_activity_at"`
	Summary      *SummaryHead      `json:"summary,omitempty"`
	Asked        uint64            `json:"asked,omitempty"` // the newest user message of no delegation
}

// Session shows a head as clients see it.
func (h *Head) Session(id string, encoding int) Session {
	s := Session{ID: id, Kind: h.Kind, Agent: h.Agent, Title: h.Title, Turns: h.Turns, Messages: h.Messages,
		Tokens: h.Tokens[encoding], SummarizedCount: h.Covered().Count}
	if !h.Created.IsZero() {
		s.CreatedAt, s.LastActivityAt = &h.Created, &h.LastActivity
	}
	return s
}

// ReadHead gives a session's project and head, which must not be changed; the head is nil where there is none.
func (svc *Service) ReadHead(ctx context.Context, c access.Caller, projectID, id string) (*project.Record, *Head, []byte, error) {
	p, got, _, err := svc.projects.Read(ctx, c, projectID, func(pinc ident.Incarnation) [][]byte {
		return [][]byte{records.Session.Key(pinc, id)}
	})
	if err != nil {
		return nil, nil, nil, err
	}
	if got[0].Damaged {
		return nil, nil, nil, records.ErrDamaged
	}
	if got[0].Value == nil {
		return p, nil, nil, nil
	}
	h, err := svc.heads.Decode(c.Tenant+"/"+projectID+"/"+id, got[0].Value)
	return p, h, got[0].Value, err
}

// Read is readHead for a session that must exist; `dashboard` always does.
func (svc *Service) Read(ctx context.Context, c access.Caller, projectID, id string) (*project.Record, *Head, []byte, error) {
	if !ident.ValidID(id) {
		return nil, nil, nil, fault.Errorf(fault.NotFound, "not_found", "no such session")
	}
	p, h, raw, err := svc.ReadHead(ctx, c, projectID, id)
	if err == nil && h == nil {
		if id != ident.DefaultSession {
			return nil, nil, nil, fault.Errorf(fault.NotFound, "not_found", "no session %q", id)
		}
		h = &Head{Kind: KindChat}
	}
	return p, h, raw, err
}

// Existing is readSession for those who need no bytes.
func (svc *Service) Existing(ctx context.Context, c access.Caller, projectID, id string) (*project.Record, *Head, error) {
	p, h, _, err := svc.Read(ctx, c, projectID, id)
	return p, h, err
}

// replaced tells whether a session that seemed damaged is another one by now; the error says that it is gone. Its
// messages are swept while whoever found its head before still reads them.
func (svc *Service) replaced(ctx context.Context, c access.Caller, projectID, id string, was ident.Incarnation) (bool, error) {
	_, h, err := svc.Existing(ctx, c, projectID, id)
	return err == nil && h.Incarnation != was, err
}

// Create makes an empty session. Without an id it gets one.
func (svc *Service) Create(ctx context.Context, c access.Caller, once access.Once, projectID string,
	spec Spec) (Session, error) {
	if err := spec.check(); err != nil {
		return Session{}, err
	}
	return records.Update(ctx, svc.db, c, once, func(t *records.Tx) (Session, error) {
		id := spec.ID
		if id == "" {
			id = svc.db.NewID("ses_", 10)
		}
		p, err := svc.projects.Project(t, c, projectID)
		if err != nil {
			return Session{}, err
		}
		r, err := svc.projects.SetupOf(p)
		if err != nil {
			return Session{}, err
		}
		got, err := t.Get(records.Session.Key(p.Incarnation, id))
		if err != nil {
			return Session{}, err
		}
		if got[0].Value != nil {
			return Session{}, fault.Errorf(fault.Conflict, "session_exists", "session %q exists", id)
		}
		h := spec.head(svc.db.NewIncarnation(), t.Now)
		return h.Session(id, r.Encoding), t.PutJSON(records.Session.Key(p.Incarnation, id), h)
	})
}

func (s *Spec) check() error {
	if s.ID != "" {
		if err := ident.CheckID("id", s.ID); err != nil {
			return err
		}
	}
	if s.Agent != "" {
		if err := ident.CheckID("agent", s.Agent); err != nil {
			return err
		}
	}
	if len(s.Title) > 512 {
		return fault.InvalidField("title", "too_long", "must be at most 512 bytes")
	}
	switch s.Kind {
	case "", KindChat, KindBackground:
		return nil
	}
	return fault.InvalidField("kind", "invalid_value", "must be chat or background")
}

func (s *Spec) head(sinc ident.Incarnation, now time.Time) *Head {
	kind := s.Kind
	if kind == "" {
		kind = KindChat
	}
	return &Head{Incarnation: sinc, Kind: kind, Agent: s.Agent, Title: s.Title, Created: now,
		LastActivity: now}
}

// Get describes a session.
func (svc *Service) Get(ctx context.Context, c access.Caller, projectID, id string) (Session, error) {
	p, h, err := svc.Existing(ctx, c, projectID, id)
	if err != nil {
		return Session{}, err
	}
	r, err := svc.projects.SetupOf(p)
	if err != nil {
		return Session{}, err
	}
	s := h.Session(id, r.Encoding)
	return s, svc.ShowSummaries(ctx, c.Tenant, []SummaryOf{{&s, h}})
}

// List pages through a project's sessions by id. `dashboard` is listed once it has a turn.
func (svc *Service) List(ctx context.Context, c access.Caller, projectID string, page records.Page) (records.List[Session], error) {
	p, _, _, err := svc.projects.Read(ctx, c, projectID, nil)
	if err != nil {
		return records.List[Session]{}, err
	}
	r, err := svc.projects.SetupOf(p)
	if err != nil {
		return records.List[Session]{}, err
	}
	heads := map[string]*Head{}
	rng := records.Session.Under(p.Incarnation)
	out, err := records.ListPage(ctx, svc.db, c.Tenant, rng, page, func(key []byte, h *Head) (Session, bool) {
		_, id, _ := records.Session.Split(key)
		heads[id] = h
		return h.Session(id, r.Encoding), id != ident.DefaultSession || h.Turns > 0
	})
	if err != nil {
		return out, err
	}
	var shown []SummaryOf
	for i := range out.Data {
		s := &out.Data[i]
		shown = append(shown, SummaryOf{s, heads[s.ID]})
	}
	return out, svc.ShowSummaries(ctx, c.Tenant, shown)
}

// Delete removes a session at once; its messages and decisions are swept in the background.
func (svc *Service) Delete(ctx context.Context, c access.Caller, projectID, id string) error {
	if !ident.ValidID(id) {
		return fault.Errorf(fault.NotFound, "not_found", "no such session")
	}
	var gone uint64
	_, err := records.Update(ctx, svc.db, c, access.Once{}, func(t *records.Tx) (struct{}, error) {
		p, err := svc.projects.Project(t, c, projectID)
		if err != nil {
			return struct{}{}, err
		}
		key := records.Session.Key(p.Incarnation, id)
		got, err := t.Get(key)
		if errors.Is(err, records.ErrDamaged) {
			dropUnborn(t, p.Incarnation, id)
			return struct{}{}, deleteHeadless(t, p, id)
		}
		if err != nil {
			return struct{}{}, err
		}
		if got[0].Value == nil {
			if id == ident.DefaultSession { // always there, and empty already
				dropUnborn(t, p.Incarnation, id)
				return struct{}{}, nil
			}
			return struct{}{}, fault.Errorf(fault.NotFound, "not_found", "no session %q", id)
		}
		var h Head
		if err := json.Unmarshal(got[0].Value, &h); err != nil {
			return struct{}{}, err
		}
		gone = h.Bytes
		drop(t, p.Incarnation, id, &h)
		return struct{}{}, nil
	})
	if err == nil {
		svc.MessageUse.Add(c.Tenant, records.Amount{Bytes: -int64(gone)})
	}
	return err
}

// drop collects the writes that make a session be no more; its messages and decisions are swept.
func drop(t *records.Tx, pinc ident.Incarnation, id string, h *Head) {
	t.Delete(records.Session.Key(pinc, id))
	if h.OpenCalls > 0 {
		t.Delete(records.OpenCalls.Key(pinc, id))
	}
	t.Delete(records.SummaryJob.Key(h.Incarnation))
	t.Put(records.SessionJob.Key(h.Incarnation), pinc[:])
	dropUnborn(t, pinc, id)
}

// dropUnborn has the decisions swept that were made before the session was.
func dropUnborn(t *records.Tx, pinc ident.Incarnation, id string) {
	t.Put(records.SessionJob.Key(Unborn(id)), pinc[:])
}
