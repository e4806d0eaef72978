// Package session keeps sessions: conversations that turns are added to, with their running summaries. A reader finds
// here what a session is (session.go, head.go), how a turn is added (turn.go), how whole conversations are purged, and
// how a session travels in a file of its own (file.go) or in its tenant's (part.go). How messages are stored is the
// business of package transcript.
//
// The hard idea: a session is its head, one small record that names the incarnation under which its messages lie. A
// session is there once its head is, and gone once its head is; what lies under an incarnation that no head names is
// removed by jobs. So a session of any size is imported and deleted in one commit.
package session

import (
	"context"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Service keeps sessions: their turns, messages and summaries. Their messages are read and written by the methods of
// transcript.Service.
type Service struct {
	*transcript.Service
	db       *records.DB
	projects *project.Service

	heads        records.Memo[Head]
	messageQuota int64            // of a tenant, in bytes; 0: no bound
	MessageUse   *records.Tallies // what each tenant has of the quota; nil where there is none

	// Decided finds the decision that a turn names; nil where there is none, or none any more. Whoever makes the rooms
	// sets it.
	Decided func(ctx context.Context, c ident.Caller, projectID, id string) (*transcript.Kept, error)
	// Appended is told of what AppendTurn has committed. Whoever makes the rooms sets it, too.
	Appended func(tenant string, pinc ident.Incarnation, t *transcript.Turn, messages []TurnMessage)
}

// New makes the room. MessageBytes bounds what the messages of each tenant may take, in bytes; 0: no bound.
func New(db *records.DB, projects *project.Service, tokens transcript.Tokenizer, messageBytes int64) *Service {
	svc := &Service{Service: transcript.New(db, tokens), db: db, projects: projects, messageQuota: messageBytes}
	svc.MessageUse = svc.newTallies()
	return svc
}

// Spec asks for a session.
type Spec struct {
	ID    string `json:"id,omitempty"`
	Kind  string `json:"kind,omitempty"` // chat (default) or background
	Agent string `json:"agent,omitempty"`
	Title string `json:"title,omitempty"`
}

// Kinds of sessions.
const (
	KindChat       = "chat"
	KindBackground = "background"
)

func (s *Spec) check() error {
	if s.ID != "" {
		if err := ident.CheckSession("id", s.ID); err != nil {
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

// head is that of a new session.
func (s *Spec) head(sinc ident.Incarnation, now time.Time) *Head {
	h := &Head{Incarnation: sinc, Kind: s.Kind, Agent: s.Agent, Title: s.Title, Created: now, LastActivity: now}
	if h.Kind == "" {
		h.Kind = KindChat
	}
	return h
}

// Session is one conversation, as listed. Tokens are counted as the project's setting tokenizer says. What a rewind took
// back counts nowhere; LastTurn is the number of the newest turn that is left.
type Session struct {
	ID              string     `json:"id"`
	Kind            string     `json:"kind"`
	Agent           string     `json:"agent"`
	Title           string     `json:"title"`
	Turns           uint32     `json:"turns"`
	LastTurn        uint32     `json:"last_turn"`
	Messages        uint64     `json:"messages"`
	Tokens          uint64     `json:"tokens"`
	Revision        uint64     `json:"revision"`
	Summary         *string    `json:"summary"`
	SummarizedCount uint64     `json:"summarized_count"`
	CreatedAt       *time.Time `json:"created_at"`
	LastActivityAt  *time.Time `json:"last_activity_at"`
}

// noSession is not_found; it does not repeat what cannot be an id.
func noSession(id string) error {
	if !ident.ValidID(id) {
		return fault.Errorf(fault.NotFound, "not_found", "no such session")
	}
	return fault.Errorf(fault.NotFound, "not_found", "no session %q", id)
}

// Create makes an empty session. Without an id it gets one. It answers session_exists where the id is taken.
func (svc *Service) Create(ctx context.Context, c ident.Caller, once ident.Once, projectID string, spec Spec) (
	Session, error) {
	if err := spec.check(); err != nil {
		return Session{}, err
	}
	once.Scope = Scope(projectID, spec.ID)
	out, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (Session, error) {
		id := spec.ID
		if id == "" {
			id = svc.db.NewID("ses_", 10)
		}
		p, set, err := svc.placeFor(t, c, projectID, id, "")
		if err != nil {
			return Session{}, err
		}
		h := spec.head(svc.db.NewIncarnation(), t.Now)
		return h.Session(id, set.Encoding).Untitled(), t.PutJSON(records.Session.Key(p.Incarnation, id), h)
	})
	out.Title = spec.Title
	return out, err
}

// Untitled is the session as the answer to an idempotent request is stored: without what a person wrote, so that
// deleting the session leaves nothing of it. Whoever answers puts the title back.
func (s Session) Untitled() Session {
	s.Title = ""
	return s
}

// placeFor gives the project where a session is to be made, and its settings. It answers session_exists, with a hint
// behind the sentence that says so.
func (svc *Service) placeFor(t *records.Tx, c ident.Caller, projectID, id, hint string) (
	*project.Record, *project.Setup, error) {
	p, err := svc.projects.Project(t, c, projectID)
	if err != nil {
		return nil, nil, err
	}
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return nil, nil, err
	}
	h, err := records.GetTx[Head](t, records.Session.Key(p.Incarnation, id))
	if err == nil && h != nil {
		err = fault.Errorf(fault.Conflict, "session_exists", "session %q exists%s", id, hint)
	}
	return p, set, err
}

// Get describes a session. It answers not_found where there is none.
func (svc *Service) Get(ctx context.Context, c ident.Caller, projectID, id string) (Session, error) {
	p, h, err := svc.Existing(ctx, c, projectID, id)
	if err != nil {
		return Session{}, err
	}
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return Session{}, err
	}
	s := h.Session(id, set.Encoding)
	return s, svc.ShowSummaries(ctx, c.Tenant, []SummaryOf{{&s, h}})
}

// List pages through a project's sessions by id. `dashboard` is listed once it has a turn.
func (svc *Service) List(ctx context.Context, c ident.Caller, projectID string, page records.Page) (
	records.List[Session], error) {
	p, _, _, err := svc.projects.Read(ctx, c, projectID, nil)
	if err != nil {
		return records.List[Session]{}, err
	}
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return records.List[Session]{}, err
	}
	heads := map[string]*Head{}
	show := func(key []byte, h *Head) (Session, bool) {
		_, id, _ := records.Session.Split(key)
		heads[id] = h
		return h.Session(id, set.Encoding), h.Counts(id)
	}
	out, err := records.ListPage(ctx, svc.db, c.Tenant, records.Session.Under(p.Incarnation), page, show)
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

// Delete removes a session at once; its messages and decisions are swept in the background. A session whose head is
// damaged can be deleted too. It answers not_found where there is none, but for `dashboard`, which then is empty
// already.
func (svc *Service) Delete(ctx context.Context, c ident.Caller, projectID, id string) error {
	if !ident.ValidID(id) {
		return noSession(id)
	}
	var gone uint64
	_, err := records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (none struct{}, err error) {
		gone = 0
		p, err := svc.projects.Project(t, c, projectID)
		if err != nil {
			return none, err
		}
		h, err := records.GetTx[Head](t, records.Session.Key(p.Incarnation, id))
		switch {
		case errors.Is(err, records.ErrDamaged):
			dropDamaged(t, p.Incarnation, id)
		case err != nil:
			return none, err
		case h != nil:
			gone = h.Bytes
			drop(t, p.Incarnation, id, h)
		case id != ident.DefaultSession:
			return none, noSession(id)
		}
		dropUnborn(t, p.Incarnation, id)
		return none, nil
	})
	if err == nil {
		svc.MessageUse.Add(c.Tenant, records.Amount{Bytes: -int64(gone)})
	}
	return err
}
