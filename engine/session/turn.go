package session

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// TurnRequest is what one run of an agent added. Agent and DelegationID apply to messages that do not name their own.
type TurnRequest struct {
	SessionID    string  `json:"session_id,omitempty"` // default: dashboard; created if it does not exist
	Agent        string  `json:"agent,omitempty"`
	DelegationID *string `json:"delegation_id,omitempty"`
	Format       string  `json:"format,omitempty"` // of the messages
	// DecisionID names the decision whose window the model answered. Messages may name their own.
	DecisionID string            `json:"decision_id,omitempty"`
	Messages   []json.RawMessage `json:"messages"`
	// Elements replace Messages if the caller has already parsed them; otherwise nil.
	Elements []*transcript.Element `json:"-"`
	// Continues adds the messages to the session's newest turn, if there is one.
	Continues bool `json:"continues,omitempty"`
	// RewindTo supersedes all turns after the given one first, in the same commit. IfRevision makes the request fail if
	// the session is at another revision.
	RewindTo   *uint32 `json:"rewind_to,omitempty"`
	IfRevision *uint64 `json:"if_revision,omitempty"`
	Mode       string  `json:"mode,omitempty"` // repair notes or leaves out what would otherwise be refused
	// Namespace is that of a new session; see Spec. A later turn may repeat it.
	Namespace []string `json:"memory_namespace,omitempty"`
	// Change is what the request changes in the middle of the session, in the same commit.
	Change *Change `json:"-"`
	// Dated makes the time of the newest message the session's last activity, instead of the time of the commit.
	Dated bool `json:"-"`
}

// TurnResponse describes a committed turn.
type TurnResponse struct {
	SessionID string         `json:"session_id"`
	Turn      uint32         `json:"turn"`
	Revision  uint64         `json:"revision"`
	Tokens    uint64         `json:"tokens"`
	Messages  []TurnMessage  `json:"messages"`
	Skipped   []chat.Skipped `json:"skipped"`
	// Superseded is what rewind_to took back; null if it was not given.
	Superseded *Superseded `json:"superseded,omitempty"`
}

// TurnMessage is one message of a committed turn.
type TurnMessage struct {
	ID     string `json:"id"`
	Role   string `json:"role"`
	Tokens uint32 `json:"tokens"`
}

// maxTurnMessages is the maximum number of messages in one turn: its headers are one record, and it is one transaction.
const maxTurnMessages = 4096

// parse checks everything in a turn that does not depend on its session.
func (req *TurnRequest) parse() (*transcript.Turn, []chat.Skipped, error) {
	if err := ident.CheckID("session_id", req.SessionID); err != nil {
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
		return nil, nil, fault.InvalidField("messages", "empty_turn", "must have at least one message")
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
		err = fault.Errorf(fault.TooLarge, "turn_too_large", "a turn may have at most %d messages, this one has %d",
			maxTurnMessages, len(t.Messages))
	}
	if err == nil && req.DecisionID != "" {
		err = ident.CheckID("decision_id", req.DecisionID)
	}
	return t, append(skipped, left...), err
}

// AppendTurn commits what one run of an agent added, whole or not at all. A turn that contains only system messages
// stores nothing and returns the session unchanged. It returns invalid_messages if a message cannot be parsed or a
// result answers no call, empty_turn, turn_too_large, quota_exceeded, and, with RewindTo, the errors of Rewind.
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
		return svc.Decided(ctx, c.Unconfined(), projectID, id)
	}); err != nil {
		return TurnResponse{}, err
	}
	if err := svc.prepare(ctx, req.Change); err != nil {
		return TurnResponse{}, err
	}
	if err := svc.checkQuota(ctx, c, req.bytes(t)); err != nil {
		return TurnResponse{}, err
	}
	if err := svc.storeBlobs(ctx, c, projectID, req.SessionID, t); err != nil {
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

// storeBlobs stores the long strings of a large turn. The session is made if it does not exist, because they are its.
func (svc *Service) storeBlobs(ctx context.Context, c ident.Caller, projectID, id string, t *transcript.Turn) error {
	if !t.Large() {
		return nil
	}
	_, h, _, err := svc.ReadHead(ctx, c, projectID, id)
	if err == nil && h == nil {
		_, err = svc.Create(ctx, c, ident.Once{}, projectID, Spec{ID: id})
		if known, ok := fault.As(err); err == nil || ok && known.Code == "session_exists" {
			_, h, _, err = svc.ReadHead(ctx, c, projectID, id)
		}
	}
	if err != nil {
		return err
	}
	if h == nil {
		return noSession(id)
	}
	return svc.StoreBlobs(ctx, c, h.Incarnation, t)
}

// Lock serializes this process's writers to one session.
func (svc *Service) Lock(ctx context.Context, tenant, project, session string) (unlock func(), err error) {
	return svc.db.Lock(ctx, ident.Join(tenant, project, session))
}

// Scope returns the scope of a session's Idempotency-Key: the same key in another session is another request.
func Scope(project, session string) string { return ident.Join(project, session) }

// append collects the writes that add the turn to its session. It returns what had to be repaired.
func (svc *Service) append(tx *records.Tx, c ident.Caller, projectID string, req *TurnRequest, t *transcript.Turn) (
	TurnResponse, []chat.Skipped, error) {
	session := req.SessionID
	p, h, open, err := svc.forAppend(tx, c, projectID, session, true)
	if err != nil {
		return TurnResponse{}, nil, err
	}
	set, err := svc.projects.SetupOf(p)
	if err == nil {
		err = h.bind(&set.Settings, c, session, req.Namespace, req.Agent)
	}
	if err == nil {
		err = h.checkRevision(req.IfRevision)
	}
	if err != nil {
		return TurnResponse{}, nil, err
	}
	before := h.Extent()
	out := TurnResponse{SessionID: session, Turn: before.LastTurn(), Revision: h.Revision, Messages: []TurnMessage{}}
	if len(t.Messages) == 0 && req.RewindTo == nil {
		return out, nil, nil
	}
	changes := h.Changes
	out.Superseded, err = svc.edit(tx, set, h, open, req)
	if err == nil {
		err = svc.changeCopies(tx, c, projectID, req.Change)
	}
	if err != nil {
		return TurnResponse{}, nil, err
	}
	left := h.Extent()
	var repaired []chat.Skipped
	if req.Mode == transcript.ModeRepair {
		t, repaired, err = svc.Repair(tx.Ctx, c.Tenant, t, left, open)
		if err != nil {
			return TurnResponse{}, nil, err
		}
	}
	t.Continues = 0
	if req.Continues {
		t.Continues = left.LastTurn()
	}
	out.Turn = left.LastTurn()
	if len(t.Messages) == 0 {
		if (out.Superseded == nil || out.Superseded.Turns == 0) && h.Changes == changes {
			return out, repaired, nil
		}
		h.Revision++
		out.Revision = h.Revision
		tx.Done = func() { svc.MessageUse.Add(tx.Tenant, records.Amount{Bytes: req.bytes(t)}) }
		return out, repaired, svc.putSession(tx, p, session, h, open)
	}
	t.OwnNames(h.Names)
	headers, lineage, err := svc.WriteTurn(tx, t, left, h.past(), open)
	if err != nil {
		return TurnResponse{}, nil, err
	}
	h.grow(headers, lineage)
	t.Names(&h.Names)
	out.add(h.Incarnation, headers, set.Encoding)
	h.act(headers, tx.Now, req.Dated)
	out.Turn, out.Revision = headers[0].Turn, h.Revision
	tx.Done = func() {
		svc.MessageUse.Add(tx.Tenant, records.Amount{Bytes: req.bytes(t)})
		svc.Appended(tx.Tenant, p.Incarnation, t, out.Messages)
	}
	return out, repaired, svc.putSession(tx, p, session, h, open)
}

// act notes the session's last activity: now or, if the messages are dated, the time of the newest one.
func (h *Head) act(headers []transcript.Header, now time.Time, dated bool) {
	if !dated {
		h.LastActivity = now
		return
	}
	for i := range headers {
		if at := records.TimeOf(headers[i].Created); at.After(h.LastActivity) {
			h.LastActivity = at
		}
	}
}

// edit changes what is stored, as the request says, before its messages are added.
func (svc *Service) edit(t *records.Tx, set *project.Setup, h *Head, open *transcript.OpenCalls, req *TurnRequest) (
	*Superseded, error) {
	if err := svc.change(t, set, h, open, req.Change); err != nil || req.RewindTo == nil {
		return nil, err
	}
	return svc.rewind(t, set, h, open, *req.RewindTo, "rewind_to")
}

// add lists stored messages in the response and adds their tokens in the encoding.
func (r *TurnResponse) add(session ident.Incarnation, headers []transcript.Header, encoding int) {
	for i := range headers {
		m, n := &headers[i], headers[i].Tokens[encoding]
		r.Tokens += uint64(n)
		r.Messages = append(r.Messages,
			TurnMessage{ID: transcript.MessageID(session, m.Seq), Role: chat.RoleName(m.Role), Tokens: n})
	}
}

// putSession collects the writes that update a session whose messages are written: its head, its open calls, and a job
// that indexes its messages. The head must not be changed afterwards.
func (svc *Service) putSession(t *records.Tx, p *project.Record, id string, h *Head, open *transcript.OpenCalls) (
	err error) {
	if h.OpenCalls, err = open.Put(t, p.Incarnation, id, h.OpenCalls); err != nil {
		return err
	}
	if p.Recalls && h.Messages > 0 { // nothing to do if the project's transcripts are not searched
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

// UnindexedMark returns the value of the job that indexes a session's messages. It differs for every turn, so that
// whoever completes the job does not remove a later one.
func UnindexedMark(h *Head, session string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, h.Messages), session...)
}

// forAppend reads, in one round trip, everything that an append depends on, and expects it unchanged. If the session
// does not exist, it returns a new one if makes is set, and not_found otherwise. The record of open calls is read only
// if the head says that there is one; both are written together, so the head vouches for it.
func (svc *Service) forAppend(t *records.Tx, c ident.Caller, projectID, session string, makes bool) (
	*project.Record, *Head, *transcript.OpenCalls, error) {
	last := svc.heads.Peek(headName(c.Tenant, projectID, session))
	var keys [][]byte
	p, got, raw, err := svc.projects.Read(t.Ctx, c.Unconfined(), projectID, func(pinc ident.Incarnation) [][]byte {
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
	if err == nil {
		err = h.CheckReach(c, session)
	}
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
