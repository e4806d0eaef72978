// Package session manages sessions: conversations that turns are added to, with their running summaries. session.go and
// head.go define a session, turn.go adds turns, conversations.go purges whole conversations, file.go reads and writes a
// session as a file, and part.go as part of a tenant's file. Package transcript stores the messages.
//
// A session is represented by its head, one small record that names the incarnation under which its messages are
// stored. The session exists exactly as long as its head does. Jobs remove whatever is stored under an incarnation that
// no head names. So a session of any size is imported and deleted in one commit.
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

// Service manages sessions. Messages are read and written by the methods of the embedded transcript.Service.
type Service struct {
	*transcript.Service
	db       *records.DB
	projects *project.Service

	heads        records.Memo[Head]
	messageQuota int64            // per tenant, in bytes; 0 means no limit
	MessageUse   *records.Tallies // each tenant's use of the quota; nil if there is no quota

	// Decided finds the decision that a turn names; nil if there is none or it has been removed. The engine sets it.
	Decided func(ctx context.Context, c ident.Caller, projectID, id string) (*transcript.Kept, error)
	// PurgeDecisions purges the contents of a session's decisions, except those for whose extent keep returns true. The
	// engine sets it.
	PurgeDecisions func(ctx context.Context, tenant string, pinc, sinc ident.Incarnation,
		keep func(seen transcript.Extent) bool) error
	// Appended is called with what AppendTurn has committed. The engine sets it.
	Appended func(tenant string, pinc ident.Incarnation, t *transcript.Turn, messages []TurnMessage)
}

// New returns a Service. messageBytes limits the size of each tenant's messages, in bytes; 0 means no limit.
func New(db *records.DB, projects *project.Service, tokens transcript.Tokenizer, messageBytes int64) *Service {
	svc := &Service{Service: transcript.New(db, tokens), db: db, projects: projects, messageQuota: messageBytes}
	svc.MessageUse = svc.newTallies()
	return svc
}

// Spec describes a session to create.
type Spec struct {
	ID    string `json:"id,omitempty"`
	Kind  string `json:"kind,omitempty"` // chat (default) or background
	Agent string `json:"agent,omitempty"`
	Title string `json:"title,omitempty"`
	// Namespace is that of the session's memories and messages. It cannot be changed once the session has a turn.
	Namespace []string `json:"memory_namespace,omitempty"`
	// Metadata is flat: strings, numbers and booleans, by name.
	Metadata ident.Metadata `json:"metadata,omitempty"`
	// Origin is "import" for a session that was read from a file of another program.
	Origin string `json:"origin,omitempty"`
}

// OriginImport is the origin of sessions that were read from files of other programs.
const OriginImport = "import"

// Kinds of sessions.
const (
	KindChat       = "chat"
	KindBackground = "background"
)

func (s *Spec) check() (err error) {
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
	if err := ident.CheckNamespace("memory_namespace", s.Namespace); err != nil {
		return err
	}
	if s.Metadata, err = ident.CheckMetadata("metadata", s.Metadata); err != nil {
		return err
	}
	if s.Origin != "" && s.Origin != OriginImport {
		return fault.InvalidField("origin", "invalid_value", "must be import, or be left out")
	}
	switch s.Kind {
	case "", KindChat, KindBackground:
		return nil
	}
	return fault.InvalidField("kind", "invalid_value", "must be chat or background")
}

// head returns the head of a new session.
func (s *Spec) head(sinc ident.Incarnation, now time.Time) *Head {
	h := &Head{Incarnation: sinc, Kind: s.Kind, Agent: s.Agent, Title: s.Title, Namespace: s.Namespace,
		Metadata: s.Metadata, Origin: s.Origin, Created: now, LastActivity: now}
	if h.Kind == "" {
		h.Kind = KindChat
	}
	return h
}

// Session is one conversation as clients see it. Tokens are counted with the project's tokenizer. Superseded turns and
// messages are not counted; LastTurn is the number of the newest living turn.
type Session struct {
	ID              string         `json:"id"`
	Kind            string         `json:"kind"`
	Agent           string         `json:"agent"`
	Title           string         `json:"title"`
	Namespace       []string       `json:"memory_namespace,omitempty"` // of its memories and messages
	Metadata        ident.Metadata `json:"metadata,omitempty"`
	Origin          string         `json:"origin,omitempty"` // import, if it was read from a file of another program
	Turns           uint32         `json:"turns"`
	LastTurn        uint32         `json:"last_turn"`
	Messages        uint64         `json:"messages"`
	Tokens          uint64         `json:"tokens"`
	Revision        uint64         `json:"revision"`
	Summary         *string        `json:"summary"`
	SummarizedCount uint64         `json:"summarized_count"`
	CreatedAt       *time.Time     `json:"created_at"`
	LastActivityAt  *time.Time     `json:"last_activity_at"`
}

// noSession returns not_found. It does not repeat a string that cannot be an id.
func noSession(id string) error {
	if !ident.ValidID(id) {
		return fault.Errorf(fault.NotFound, "not_found", "no such session")
	}
	return fault.Errorf(fault.NotFound, "not_found", "no session %q", id)
}

// Create creates an empty session. It generates an id if none is given. It returns session_exists if the id is taken.
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
		_, namespace, err := c.In(spec.Namespace)
		if err != nil {
			return Session{}, err
		}
		spec.Namespace = namespace
		h := spec.head(svc.db.NewIncarnation(), t.Now)
		return h.Session(id, set.Encoding).Untitled(), t.PutJSON(records.Session.Key(p.Incarnation, id), h)
	})
	out.Title, out.Metadata = spec.Title, spec.Metadata
	return out, err
}

// Untitled returns the session as it is stored in the response to an idempotent request: without text that a person
// wrote, so that nothing of it is left after the session is deleted. Title and Metadata are added again before a response
// is sent.
func (s Session) Untitled() Session {
	s.Title, s.Metadata = "", nil
	return s
}

// placeFor returns the project in which a session is to be made, and its settings. It returns session_exists, with hint
// appended to the message.
func (svc *Service) placeFor(t *records.Tx, c ident.Caller, projectID, id, hint string) (
	*project.Record, *project.Setup, error) {
	p, err := svc.projects.Project(t, c.Unconfined(), projectID)
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

// Get returns a session. It returns not_found if there is none.
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

// Delete deletes a session with its side calls at once; its messages and decisions are swept in the background. A session whose head is
// damaged can be deleted, too. It returns not_found if there is none, except for `dashboard`, which then is already
// empty.
func (svc *Service) Delete(ctx context.Context, c ident.Caller, projectID, id string) error {
	if !ident.ValidID(id) {
		return noSession(id)
	}
	var gone uint64
	_, err := records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (none struct{}, err error) {
		gone = 0
		p, err := svc.projects.Project(t, c.Unconfined(), projectID)
		if err != nil {
			return none, err
		}
		h, err := records.GetTx[Head](t, records.Session.Key(p.Incarnation, id))
		if err == nil {
			err = h.CheckReach(c, id)
		}
		switch {
		case errors.Is(err, records.ErrDamaged) && c.Namespaces != nil: // its namespace is unknown
			return none, noSession(id)
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
		if _, n := ident.Forked(id); n != 0 {
			return none, nil
		}
		side := ident.ForkOf(id, ident.Side)
		h, err = records.GetTx[Head](t, records.Session.Key(p.Incarnation, side))
		if errors.Is(err, records.ErrDamaged) {
			dropDamaged(t, p.Incarnation, side)
			return none, nil
		}
		if err == nil && h != nil {
			gone += h.Bytes
			drop(t, p.Incarnation, side, h)
			dropUnborn(t, p.Incarnation, side)
		}
		return none, err
	})
	if err == nil {
		svc.MessageUse.Add(c.Tenant, records.Amount{Bytes: -int64(gone)})
	}
	return err
}
