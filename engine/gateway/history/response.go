package history

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// How long requests may continue a response. OpenAI keeps responses for the same time. The messages of an open turn are
// kept for a shorter time, because they are stored nowhere else and may never be used.
const (
	responseLife = 30 * 24 * time.Hour
	openTurnLife = 24 * time.Hour
)

// Response says where a model's response is stored, for requests that continue it. Clients that send only new messages
// and name no response have one too, for the open turn of each agent in a session.
type Response struct {
	Session string      `json:"session"`
	Agent   string      `json:"agent,omitempty"`
	Keep    int         `json:"keep"`  // the number of the agent's messages up to and including the response; for an open turn, the number before the turn
	Chain   align.Hash  `json:"chain"` // of them
	Open    *responseID `json:"open,omitempty"`
	Body    [32]byte    `json:"body"` // of the request
	// Else applies if the session does not hold the response, because its turn was not stored after all.
	Else  *Response `json:"else,omitempty"`
	Until time.Time `json:"until"`
}

// OpenTurn contains the messages of an open turn since the reply of Before, up to a reply that calls tools.
type OpenTurn struct {
	Format   string            `json:"format"`
	Before   *responseID       `json:"before,omitempty"`
	Given    uint32            `json:"given"` // the turn numbers that the session had assigned when the turn began
	Messages []json.RawMessage `json:"messages"`
}

// responseID is a hash of a response's id.
type responseID [16]byte

func idOf(texts ...string) *responseID {
	var all []byte
	for _, text := range texts {
		all = append(append(all, text...), 0)
	}
	sum := sha256.Sum256(all)
	id := responseID(sum[:len(responseID{})])
	return &id
}

// name returns the id by which a request looks for what it continues, or nil if only its messages count.
func (a *Ask) name() *responseID {
	switch {
	case a.Previous != "":
		return idOf("response", a.Previous)
	case a.Delta:
		return idOf("session", a.Session, a.Agent)
	}
	return nil
}

// errUnknown returns the error for a request that continues an unknown response.
func errUnknown(id string) error {
	return fault.Errorf(fault.Invalid, "previous_response_not_found", "Previous response with id '%s' not found.", id)
}

// before returns the response that a request continues, or nil if it is unknown.
func (svc *Service) before(ctx context.Context, c ident.Caller, projectID string, a *Ask) (*Response, error) {
	if id := a.name(); id != nil {
		return svc.response(ctx, c, projectID, id)
	}
	return nil, nil
}

// response reads where a response is stored. It returns nil if the response is unknown.
func (svc *Service) response(ctx context.Context, c ident.Caller, projectID string, id *responseID) (*Response, error) {
	_, items, _, err := svc.projects.Read(ctx, c.Unconfined(), projectID, func(pinc ident.Incarnation) [][]byte {
		return [][]byte{records.Response.Key(pinc, *id)}
	})
	if err != nil || items[0].Value == nil {
		return nil, err // A damaged record counts as missing.
	}
	r := new(Response)
	return r, json.Unmarshal(items[0].Value, r)
}

// goesOn makes an open turn from a response, as far as it can be read. It returns nil if the session has changed
// course. For a response that ended its turn the open turn is empty. For a response that is to be made again, it is the
// open turn before it.
func (svc *Service) goesOn(ctx context.Context, tenant string, f chat.Format, r *Response, p *place, again bool) (*loop, error) {
	l := &loop{session: p.id, agent: r.Agent, incarnation: p.incarnation(), keep: r.Keep, base: r.Chain}
	if !l.behind(p) {
		return nil, nil
	}
	var parts [][]json.RawMessage
	for id, n := r.Open, 0; id != nil; n++ {
		if p.head == nil || n > maxAttempts*maxAttempts {
			return nil, nil
		}
		at, key := id, records.OpenTurn.Key(p.head.Incarnation, *id)
		part, err := records.Get[OpenTurn](ctx, svc.db, tenant, key)
		if errors.Is(err, records.ErrDamaged) || err == nil && (part == nil || part.Format != f.String()) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		id, l.given = part.Before, part.Given
		if again && n == 0 {
			continue
		}
		parts = append(parts, part.Messages)
		if l.response == nil {
			l.response = at
		}
	}
	var raw []json.RawMessage
	for i := range parts {
		raw = append(raw, parts[len(parts)-1-i]...)
	}
	said, err := listen(f, raw)
	if err != nil {
		return nil, nil
	}
	l.said, l.shown = said, said.shown()
	return l, nil
}

// noteResponse records where a reply that ends its turn will be stored.
func (svc *Service) noteResponse(ctx context.Context, c ident.Caller, x *Exchange, f *found, r *Reply, all *saying) error {
	alone := x.ask.Delta && x.ask.Previous == ""
	if r.ResponseID == "" && !alone {
		return nil
	}
	at := Response{Session: f.to, Agent: x.Delegation, Keep: f.keep, Chain: f.base(), Body: x.ask.body()}
	for _, h := range all.shown() {
		at.Keep, at.Chain = at.Keep+1, align.Roll(at.Chain, h)
	}
	_, err := records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (none struct{}, err error) {
		if alone {
			newest := at
			if f.loop != nil && f.loop.response != nil {
				newest.Else = &Response{Session: f.id, Agent: x.Delegation, Keep: f.loop.keep, Chain: f.loop.base, Open: f.loop.response}
			}
			err = newest.put(t, x.Project.Incarnation, x.ask.name(), openTurnLife)
		}
		if err == nil && r.ResponseID != "" {
			err = at.put(t, x.Project.Incarnation, idOf("response", r.ResponseID), responseLife)
		}
		return none, err
	})
	return err
}

// noteOpen stores an open turn, for clients that may send only new messages. It creates the session if it does not
// exist yet, so that deleting the session deletes the open turn.
func (svc *Service) noteOpen(ctx context.Context, c ident.Caller, projectID string, x *Exchange, l, before *loop, r *Reply) error {
	alone, held := x.ask.Delta && x.ask.Previous == "", l.holds()
	if r.ResponseID == "" && !alone && !held {
		return nil
	}
	if l.incarnation == (ident.Incarnation{}) {
		_, err := svc.sessions.Create(ctx, c, ident.Once{}, projectID, session.Spec{ID: l.session, Namespace: x.ask.Namespace})
		if known, ok := fault.As(err); err != nil && (!ok || known.Code != "session_exists") {
			return err
		}
	}
	part := OpenTurn{Format: l.said.format.String(), Given: l.given}
	from := 0
	if before != nil && before.response != nil {
		part.Before, from = before.response, len(before.said.parsed)
	}
	part.Messages = transcript.Raw(l.said.cut(from, len(l.said.parsed)))
	id := idOf("response", r.ResponseID)
	if r.ResponseID == "" {
		id = idOf("part", svc.db.NewID("", 16))
	}
	l.response = id
	at := Response{Session: l.session, Agent: l.agent, Keep: l.keep, Chain: l.base, Open: id, Body: x.ask.body()}
	_, err := records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (none struct{}, err error) {
		h, err := records.GetTx[session.Head](t, records.Session.Key(x.Project.Incarnation, l.session))
		if err != nil || h == nil {
			return none, err // The session was deleted in the meantime.
		}
		key := records.OpenTurn.Key(h.Incarnation, *id)
		t.Put(records.Expiry.Key(t.Now.Add(openTurnLife), key), []byte{0})
		if err := t.PutJSON(key, part); err != nil {
			return none, err
		}
		if alone {
			err = at.put(t, x.Project.Incarnation, x.ask.name(), openTurnLife)
		}
		if err == nil && r.ResponseID != "" {
			err = at.put(t, x.Project.Incarnation, id, openTurnLife)
		}
		if err == nil && held {
			err = at.put(t, x.Project.Incarnation, x.heldName(), openTurnLife)
		}
		return none, err
	})
	return err
}

// heldName returns the id of an agent's newest open turn with messages that its client does not have.
func (x *Exchange) heldName() *responseID { return idOf("held", x.base, x.Delegation) }

// takeUp loads the open turn with hidden messages of a request's agent, if it is in the store but not in memory.
func (svc *Service) takeUp(ctx context.Context, c ident.Caller, projectID string, x *Exchange, places []place) error {
	if !x.ask.Holds || x.resumed != nil || slices.ContainsFunc(svc.openTurns(c, x).open, func(l *loop) bool {
		return l.agent == x.Delegation && l.holds()
	}) {
		return nil
	}
	r, err := svc.response(ctx, c, projectID, x.heldName())
	if r == nil || err != nil {
		return err
	}
	i := slices.IndexFunc(places, func(p place) bool { return p.id == r.Session })
	if i < 0 || places[i].line.Len() != r.Keep {
		return nil
	}
	l, err := svc.goesOn(ctx, c.Tenant, x.ask.Format, r, &places[i], false)
	if l != nil {
		svc.remember(c, x, func(ls *loops) *loops { return ls.with(l) })
	}
	return err
}

// put stores a response for a limited time. It replaces an earlier one with the same name.
func (r Response) put(t *records.Tx, project ident.Incarnation, id *responseID, life time.Duration) error {
	key := records.Response.Key(project, *id)
	was, err := records.GetTx[Response](t, key)
	if err != nil {
		return err
	}
	if was != nil {
		t.Delete(records.Expiry.Key(was.Until, key))
	}
	r.Until = t.Now.Add(life)
	t.Put(records.Expiry.Key(r.Until, key), []byte{0})
	return t.PutJSON(key, r)
}

// Sweep deletes a chunk of the records of a deleted project.
func (svc *Service) Sweep(ctx context.Context, tenant string, project ident.Incarnation) (more bool, err error) {
	return svc.db.DeleteRange(ctx, tenant, records.Response.Under(project))
}

// Checks returns the checks of the records for requests that send only new messages.
func Checks() []verify.Check {
	return []verify.Check{
		{Kind: records.Response, Record: verify.Expires[Response]},
		{Kind: records.OpenTurn, Record: verify.Expires[OpenTurn]},
	}
}
