package session

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// TurnRequest is what one run of an agent added. Agent and DelegationID are for messages that do not name their own.
type TurnRequest struct {
	SessionID    string  `json:"session_id,omitempty"` // default: dashboard; a new one is made
	Agent        string  `json:"agent,omitempty"`
	DelegationID *string `json:"delegation_id,omitempty"`
	Format       string  `json:"format,omitempty"` // of the messages
	// DecisionID names the decision whose window the turn was made from. Messages may name their own.
	DecisionID string            `json:"decision_id,omitempty"`
	Messages   []json.RawMessage `json:"messages"`
	// Elements stand in place of Messages for a caller that has read them; nil: there are none.
	Elements []*transcript.Element `json:"-"`
	// Continues adds the messages to the session's newest turn, if it has one.
	Continues bool `json:"continues,omitempty"`
	// RewindTo supersedes all turns behind one first, in the same commit. IfRevision refuses where the session is at
	// another revision.
	RewindTo   *uint32 `json:"rewind_to,omitempty"`
	IfRevision *uint64 `json:"if_revision,omitempty"`
	Mode       string  `json:"mode,omitempty"` // repair notes or leaves out what else is refused
	// Change is what the turn's request does to the middle of the session, in the same commit.
	Change *Change `json:"-"`
}

// TurnResponse acknowledges a committed turn.
type TurnResponse struct {
	SessionID string         `json:"session_id"`
	Turn      uint32         `json:"turn"`
	Revision  uint64         `json:"revision"`
	Tokens    uint64         `json:"tokens"`
	Messages  []TurnMessage  `json:"messages"`
	Skipped   []chat.Skipped `json:"skipped"`
	// Superseded says what rewind_to took back; null: it was not asked for.
	Superseded *Superseded `json:"superseded,omitempty"`
}

// TurnMessage is one message of a committed turn.
type TurnMessage struct {
	ID     string `json:"id"`
	Role   string `json:"role"`
	Tokens uint32 `json:"tokens"`
}

// maxTurnMessages bounds one turn: its packed headers are one record, and it commits in one transaction.
const maxTurnMessages = 4096

// parse checks everything about a turn that does not depend on its session.
func (req *TurnRequest) parse() (*transcript.Turn, []chat.Skipped, error) {
	if err := ident.CheckSession("session_id", req.SessionID); err != nil {
		return nil, nil, err
	}
	t := &transcript.Turn{Agent: req.Agent}
	if req.Agent != "" {
		if err := ident.CheckID("agent", req.Agent); err != nil {
			return nil, nil, err
		}
	}
	if req.DelegationID != nil && *req.DelegationID != "" {
		t.Delegation = *req.DelegationID
		if err := ident.CheckID("delegation_id", t.Delegation); err != nil {
			return nil, nil, err
		}
	}
	format, err := transcript.ParseFormat(req.Format, false)
	if err != nil {
		return nil, nil, err
	}
	if req.Elements != nil {
		req.Messages = transcript.Raw(req.Elements)
	}
	if len(req.Messages) == 0 {
		return nil, nil, fault.InvalidField("messages", "empty_turn", "must hold at least one message")
	}
	skipped := []chat.Skipped{}
	parse, err := transcript.ParserFor(req.Mode)
	if err != nil {
		return nil, nil, err
	}
	read, left := transcript.TurnOf(req.Elements, req.Mode)
	if read != nil {
		read.Agent = t.Agent
		read.Delegation = t.Delegation
		t = read
	} else {
		t.Messages, left, err = parse(format, req.Messages)
	}
	if err == nil && len(t.Messages) > maxTurnMessages {
		err = fault.Errorf(fault.TooLarge, "turn_too_large", "a turn holds at most %d messages, this one %d",
			maxTurnMessages, len(t.Messages))
	}
	if err == nil && req.DecisionID != "" {
		err = ident.CheckID("decision_id", req.DecisionID)
	}
	return t, append(skipped, left...), err
}

// AppendTurn commits what one run of an agent added, whole or not at all. A turn of nothing but system messages
// stores nothing and answers the session as it stands. It answers invalid_messages where a message cannot be read or a
// result answers no call, empty_turn, turn_too_large, quota_exceeded, and what Rewind answers where turns are to be
// superseded.
func (svc *Service) AppendTurn(ctx context.Context, c ident.Caller, once ident.Once, projectID string,
	req TurnRequest) (TurnResponse, error) {
	if req.SessionID == "" {
		req.SessionID = ident.DefaultSession
	}
	t, skipped, err := req.parse()
	if err != nil {
		return TurnResponse{}, err
	}
	if err := svc.Measure(ctx, t); err != nil {
		return TurnResponse{}, err
	}
	making := transcript.Making{Session: req.SessionID, Format: req.Format, DecisionID: req.DecisionID,
		Posted: req.Messages, Field: "messages"}
	if err := making.Trace(t, func(id string) (*transcript.Kept, error) {
		return svc.Decided(ctx, c, projectID, id)
	}); err != nil {
		return TurnResponse{}, err
	}
	if err := svc.checkQuota(ctx, c, t.Bytes()); err != nil {
		return TurnResponse{}, err
	}
	once.Scope = Scope(projectID, req.SessionID)
	unlock, err := svc.Lock(ctx, c.Tenant, projectID, req.SessionID)
	if err != nil {
		return TurnResponse{}, err
	}
	defer unlock()
	return records.Update(ctx, svc.db, c, once, func(tx *records.Tx) (TurnResponse, error) {
		out, repaired, err := svc.append(tx, c, projectID, &req, t)
		out.Skipped = transcript.SortSkipped(append(slices.Clip(skipped), repaired...))
		return out, err
	})
}

// Lock makes this process's writers to one session queue up.
func (svc *Service) Lock(ctx context.Context, tenant, project, session string) (unlock func(), err error) {
	return svc.db.Lock(ctx, tenant+"\x00"+project+"\x00"+session)
}

// Scope is that of an Idempotency-Key of a session: the same key with another session is another request.
func Scope(project, session string) string { return project + "\x00" + session }

// append collects the writes that add the turn to its session. It gives what had to be repaired.
func (svc *Service) append(tx *records.Tx, c ident.Caller, projectID string, req *TurnRequest, t *transcript.Turn) (
	TurnResponse, []chat.Skipped, error) {
	session := req.SessionID
	p, h, open, err := svc.forAppend(tx, c, projectID, session, true)
	if err == nil {
		err = h.checkRevision(req.IfRevision)
	}
	if err != nil {
		return TurnResponse{}, nil, err
	}
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return TurnResponse{}, nil, err
	}
	before := h.Extent()
	out := TurnResponse{SessionID: session, Turn: before.LastTurn(), Revision: h.Revision, Messages: []TurnMessage{}}
	if len(t.Messages) == 0 && req.RewindTo == nil {
		return out, nil, nil
	}
	if err := svc.change(tx, set, h, open, req.Change); err != nil {
		return TurnResponse{}, nil, err
	}
	if req.RewindTo != nil {
		if out.Superseded, err = svc.rewind(tx, set, h, open, *req.RewindTo, "rewind_to"); err != nil {
			return TurnResponse{}, nil, err
		}
	}
	left := h.Extent()
	var repaired []chat.Skipped
	if req.Mode == transcript.ModeRepair {
		t, repaired, err = svc.Repair(tx.Ctx, c.Tenant, t, left, open)
		if err != nil {
			return TurnResponse{}, nil, err
		}
	}
	if t.Continues = 0; req.Continues {
		t.Continues = left.LastTurn()
	}
	if out.Turn = left.LastTurn(); len(t.Messages) == 0 {
		if out.Superseded.Turns == 0 {
			return out, repaired, nil
		}
		h.Revision++
		out.Revision = h.Revision
		return out, repaired, svc.putSession(tx, p, session, h, open)
	}
	t.OwnNames(h.Names)
	headers, lineage, err := svc.WriteTurn(tx, t, left, h.past(), open)
	if err != nil {
		return TurnResponse{}, nil, err
	}
	h.grow(headers, lineage)
	t.Names(&h.Names)
	for i := range headers {
		m, n := &headers[i], headers[i].Tokens[set.Encoding]
		out.Tokens += uint64(n)
		out.Messages = append(out.Messages,
			TurnMessage{ID: transcript.MessageID(h.Incarnation, m.Seq), Role: chat.RoleName(m.Role), Tokens: n})
	}
	h.LastActivity = tx.Now
	out.Turn, out.Revision = headers[0].Turn, h.Revision
	tx.Done = func() {
		svc.MessageUse.Add(tx.Tenant, records.Amount{Bytes: t.Bytes()})
		svc.Appended(tx.Tenant, p.Incarnation, t, out.Messages)
	}
	return out, repaired, svc.putSession(tx, p, session, h, open)
}

// putSession collects the writes that keep a session whose messages are written: its head, its open calls, and word
// that it has messages to be indexed. The head must not be changed any more.
func (svc *Service) putSession(t *records.Tx, p *project.Record, id string, h *Head, open *transcript.OpenCalls) (
	err error) {
	if h.OpenCalls, err = open.Put(t, p.Incarnation, id, h.OpenCalls); err != nil {
		return err
	}
	if p.Recalls && h.Messages > 0 { // nothing is written in a project whose transcripts nobody searches
		t.Put(records.UnindexedJob.Key(p.Incarnation, h.Incarnation), UnindexedMark(h, id))
	}
	raw, err := json.Marshal(h)
	if err != nil {
		return err
	}
	t.Put(records.Session.Key(p.Incarnation, id), raw)
	svc.heads.Note(headName(t.Tenant, p.ID, id), raw, h)
	return nil
}

// UnindexedMark says in a job that a session has messages to be indexed. It differs with every turn, so that who is
// done with the session does not remove a later mark.
func UnindexedMark(h *Head, session string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, h.Messages), session...)
}

// forAppend reads, in one round trip, all that an append builds on, and expects it unchanged. A session that
// does not exist yet is a new one where one may be made, and else not_found. The record of open calls is read only where
// the head says that there is one; they are written together, so that the head answers for both.
func (svc *Service) forAppend(t *records.Tx, c ident.Caller, projectID, session string, makes bool) (
	*project.Record, *Head, *transcript.OpenCalls, error) {
	last := svc.heads.Peek(headName(c.Tenant, projectID, session))
	var keys [][]byte
	p, got, raw, err := svc.projects.Read(t.Ctx, c, projectID, func(pinc ident.Incarnation) [][]byte {
		keys = append(keys[:0], records.Session.Key(pinc, session))
		if last != nil && last.OpenCalls > 0 {
			keys = append(keys, records.OpenCalls.Key(pinc, session))
		}
		return keys
	})
	if err != nil {
		return nil, nil, nil, err
	}
	h, err := svc.KnownHead(c.Tenant, p, session, got[0])
	if err != nil {
		return nil, nil, nil, err
	}
	t.Batch.Expect = append(t.Batch.Expect, store.Expect{Key: records.Project.Key(projectID), Value: raw},
		store.Expect{Key: keys[0], Value: got[0].Value})
	switch {
	case h != nil:
		h = h.own()
	case !makes:
		return nil, nil, nil, noSession(session)
	default:
		h = (&Spec{}).head(svc.db.NewIncarnation(), t.Now)
	}
	if err := h.CheckOpen(session); err != nil {
		return nil, nil, nil, err
	}
	open, err := svc.Open(t, p.Incarnation, session, h.Incarnation, h.OpenCalls, got[1:])
	return p, h, open, err
}
