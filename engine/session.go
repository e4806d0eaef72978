package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"
)

// SessionSpec asks for a session.
type SessionSpec struct {
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

// unborn stands for the incarnation of a session that does not exist yet, so that deleting it finds its decisions too.
func unborn(session string) incarnation {
	sum := sha256.Sum256([]byte("unborn session " + session))
	return incarnation(sum[:8])
}

// Kinds of sessions.
const (
	kindChat       = "chat"
	kindBackground = "background"
)

// head is a session's own record: what identifies its state. Every commit to the session expects it unchanged, and each
// turn raises Revision, which makes turns a total order.
type head struct {
	Incarnation  incarnation  `json:"incarnation"`
	Revision     uint64       `json:"revision"`
	Turns        uint32       `json:"turns"`
	Messages     uint64       `json:"messages"`
	Tokens       [2]uint64    `json:"tokens"`
	Bytes        uint64       `json:"bytes,omitempty"` // of the message bodies
	OpenCalls    int          `json:"open_calls,omitempty"`
	Kind         string       `json:"kind"`
	Agent        string       `json:"agent,omitempty"`
	Title        string       `json:"title,omitempty"`
	Created      time.Time    `json:"created_at"`
	LastActivity time.Time    `json:"last_activity_at"`
	Summary      *summaryHead `json:"summary,omitempty"`
	Asked        uint64       `json:"asked,omitempty"` // the newest user message of no delegation
}

// session shows a head as clients see it.
func (h *head) session(id string, encoding int) Session {
	s := Session{ID: id, Kind: h.Kind, Agent: h.Agent, Title: h.Title, Turns: h.Turns, Messages: h.Messages,
		Tokens: h.Tokens[encoding], SummarizedCount: h.covered().Count}
	if !h.Created.IsZero() {
		s.CreatedAt, s.LastActivityAt = &h.Created, &h.LastActivity
	}
	return s
}

// readHead gives a session's project and head, which must not be changed; the head is nil where there is none.
func (e *Engine) readHead(ctx context.Context, c Caller, projectID, id string) (*project, *head, []byte, error) {
	p, got, _, err := e.readProject(ctx, c, projectID, func(pinc incarnation) [][]byte {
		return [][]byte{kindSession.Key(pinc, id)}
	})
	if err != nil {
		return nil, nil, nil, err
	}
	if got[0].Damaged {
		return nil, nil, nil, errDamaged
	}
	if got[0].Value == nil {
		return p, nil, nil, nil
	}
	h, err := e.heads.decode(c.Tenant+"/"+projectID+"/"+id, got[0].Value)
	return p, h, got[0].Value, err
}

// readSession is readHead for a session that must exist; `dashboard` always does.
func (e *Engine) readSession(ctx context.Context, c Caller, projectID, id string) (*project, *head, []byte, error) {
	if !validID(id) {
		return nil, nil, nil, errorf(NotFound, "not_found", "no such session")
	}
	p, h, raw, err := e.readHead(ctx, c, projectID, id)
	if err == nil && h == nil {
		if id != DefaultSession {
			return nil, nil, nil, errorf(NotFound, "not_found", "no session %q", id)
		}
		h = &head{Kind: kindChat}
	}
	return p, h, raw, err
}

// existing is readSession for those who need no bytes.
func (e *Engine) existing(ctx context.Context, c Caller, projectID, id string) (*project, *head, error) {
	p, h, _, err := e.readSession(ctx, c, projectID, id)
	return p, h, err
}

// replaced tells whether a session that seemed damaged is another one by now; the error says that it is gone. Its
// messages are swept while whoever found its head before still reads them.
func (e *Engine) replaced(ctx context.Context, c Caller, projectID, id string, was incarnation) (bool, error) {
	_, h, err := e.existing(ctx, c, projectID, id)
	return err == nil && h.Incarnation != was, err
}

// CreateSession makes an empty session. Without an id it gets one.
func (e *Engine) CreateSession(ctx context.Context, c Caller, once Once, projectID string,
	spec SessionSpec) (Session, error) {
	if err := spec.check(); err != nil {
		return Session{}, err
	}
	return update(ctx, e, c, once, func(t *tx) (Session, error) {
		id := spec.ID
		if id == "" {
			id = e.newID("ses_", 10)
		}
		p, err := t.project(c, projectID)
		if err != nil {
			return Session{}, err
		}
		r, err := e.setupOf(p)
		if err != nil {
			return Session{}, err
		}
		got, err := t.get(kindSession.Key(p.Incarnation, id))
		if err != nil {
			return Session{}, err
		}
		if got[0].Value != nil {
			return Session{}, errorf(Conflict, "session_exists", "session %q exists", id)
		}
		h := spec.head(e.newIncarnation(), t.now)
		return h.session(id, r.encoding), t.putJSON(kindSession.Key(p.Incarnation, id), h)
	})
}

func (s *SessionSpec) check() error {
	if s.ID != "" {
		if err := checkID("id", s.ID); err != nil {
			return err
		}
	}
	if s.Agent != "" {
		if err := checkID("agent", s.Agent); err != nil {
			return err
		}
	}
	if len(s.Title) > 512 {
		return invalidField("title", "too_long", "must be at most 512 bytes")
	}
	switch s.Kind {
	case "", kindChat, kindBackground:
		return nil
	}
	return invalidField("kind", "invalid_value", "must be chat or background")
}

func (s *SessionSpec) head(sinc incarnation, now time.Time) *head {
	kind := s.Kind
	if kind == "" {
		kind = kindChat
	}
	return &head{Incarnation: sinc, Kind: kind, Agent: s.Agent, Title: s.Title, Created: now,
		LastActivity: now}
}

// GetSession describes a session.
func (e *Engine) GetSession(ctx context.Context, c Caller, projectID, id string) (Session, error) {
	p, h, err := e.existing(ctx, c, projectID, id)
	if err != nil {
		return Session{}, err
	}
	r, err := e.setupOf(p)
	if err != nil {
		return Session{}, err
	}
	s := h.session(id, r.encoding)
	return s, e.showSummaries(ctx, c.Tenant, []summaryOf{{&s, h}})
}

// ListSessions pages through a project's sessions by id. `dashboard` is listed once it has a turn.
func (e *Engine) ListSessions(ctx context.Context, c Caller, projectID string, page Page) (List[Session], error) {
	p, _, _, err := e.readProject(ctx, c, projectID, nil)
	if err != nil {
		return List[Session]{}, err
	}
	r, err := e.setupOf(p)
	if err != nil {
		return List[Session]{}, err
	}
	heads := map[string]*head{}
	rng := kindSession.Under(p.Incarnation)
	out, err := listPage(ctx, e, c.Tenant, rng, page, func(key []byte, h *head) (Session, bool) {
		_, id, _ := kindSession.Split(key)
		heads[id] = h
		return h.session(id, r.encoding), id != DefaultSession || h.Turns > 0
	})
	if err != nil {
		return out, err
	}
	var shown []summaryOf
	for i := range out.Data {
		s := &out.Data[i]
		shown = append(shown, summaryOf{s, heads[s.ID]})
	}
	return out, e.showSummaries(ctx, c.Tenant, shown)
}

// DeleteSession removes a session at once; its messages and decisions are swept in the background.
func (e *Engine) DeleteSession(ctx context.Context, c Caller, projectID, id string) error {
	if !validID(id) {
		return errorf(NotFound, "not_found", "no such session")
	}
	var gone uint64
	_, err := update(ctx, e, c, Once{}, func(t *tx) (struct{}, error) {
		p, err := t.project(c, projectID)
		if err != nil {
			return struct{}{}, err
		}
		key := kindSession.Key(p.Incarnation, id)
		got, err := t.get(key)
		if errors.Is(err, errDamaged) {
			t.dropUnborn(p.Incarnation, id)
			return struct{}{}, t.deleteHeadless(p, id)
		}
		if err != nil {
			return struct{}{}, err
		}
		if got[0].Value == nil {
			if id == DefaultSession { // always there, and empty already
				t.dropUnborn(p.Incarnation, id)
				return struct{}{}, nil
			}
			return struct{}{}, errorf(NotFound, "not_found", "no session %q", id)
		}
		var h head
		if err := json.Unmarshal(got[0].Value, &h); err != nil {
			return struct{}{}, err
		}
		gone = h.Bytes
		t.dropSession(p.Incarnation, id, &h)
		return struct{}{}, nil
	})
	if err == nil {
		e.messageUse.add(c.Tenant, amount{bytes: -int64(gone)})
	}
	return err
}

// dropSession collects the writes that make a session be no more; its messages and decisions are swept.
func (t *tx) dropSession(pinc incarnation, id string, h *head) {
	t.delete(kindSession.Key(pinc, id))
	if h.OpenCalls > 0 {
		t.delete(kindOpenCalls.Key(pinc, id))
	}
	t.delete(kindSummaryJob.Key(h.Incarnation))
	t.put(kindSessionJob.Key(h.Incarnation), pinc[:])
	t.dropUnborn(pinc, id)
}

// dropUnborn has the decisions swept that were made before the session was.
func (t *tx) dropUnborn(pinc incarnation, id string) {
	t.put(kindSessionJob.Key(unborn(id)), pinc[:])
}

// openSessions makes ready what sessions need; messageBytes bounds what a tenant's messages may take, 0 means no bound.
func (e *Engine) openSessions(tokens Tokenizer, messageBytes int64) {
	e.tokens = tokens
	e.messageUse, e.messageQuota = e.newMessageTallies(messageBytes), messageBytes
}
