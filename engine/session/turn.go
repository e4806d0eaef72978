package session

import (
	"context"
	"encoding/binary"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// TurnRequest is what one run of an agent added. Agent and DelegationID are for messages that do not name their own.
type TurnRequest struct {
	SessionID    string            `json:"session_id,omitempty"` // default: dashboard; a new one is made
	Agent        string            `json:"agent,omitempty"`
	DelegationID *string           `json:"delegation_id,omitempty"`
	Format       string            `json:"format,omitempty"` // of the messages
	Messages     []json.RawMessage `json:"messages"`
}

// TurnResponse acknowledges a committed turn.
type TurnResponse struct {
	SessionID string         `json:"session_id"`
	Turn      uint32         `json:"turn"`
	Revision  uint64         `json:"revision"`
	Tokens    uint64         `json:"tokens"`
	Messages  []TurnMessage  `json:"messages"`
	Skipped   []chat.Skipped `json:"skipped"`
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
	if len(req.Messages) == 0 {
		return nil, nil, fault.InvalidField("messages", "empty_turn", "must hold at least one message")
	}
	skipped := []chat.Skipped{}
	parsed, left, err := transcript.ParseMessages(format, req.Messages)
	if err == nil && len(parsed) > maxTurnMessages {
		err = fault.Errorf(fault.TooLarge, "turn_too_large", "a turn holds at most %d messages, this one %d",
			maxTurnMessages, len(parsed))
	}
	t.Messages = parsed
	return t, append(skipped, left...), err
}

// AppendTurn commits what one run of an agent added, whole or not at all. A turn of nothing but system messages
// stores nothing and answers the session as it stands. It answers invalid_messages where a message cannot be read or a
// result answers no call, empty_turn, turn_too_large, and quota_exceeded.
func (svc *Service) AppendTurn(ctx context.Context, c access.Caller, once access.Once, projectID string,
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
	size := t.Bytes()
	if err := svc.checkQuota(ctx, c, size); err != nil {
		return TurnResponse{}, err
	}
	unlock, err := svc.Lock(ctx, c.Tenant, projectID, req.SessionID)
	if err != nil {
		return TurnResponse{}, err
	}
	defer unlock()
	out, err := records.Update(ctx, svc.db, c, once, func(tx *records.Tx) (TurnResponse, error) {
		out, err := svc.append(tx, c, projectID, req.SessionID, t)
		out.Skipped = skipped
		return out, err
	})
	if err == nil {
		svc.MessageUse.Add(c.Tenant, records.Amount{Bytes: size})
	}
	return out, err
}

// Lock makes this process's writers to one session queue up.
func (svc *Service) Lock(ctx context.Context, tenant, project, session string) (unlock func(), err error) {
	return svc.db.Lock(ctx, tenant+"\x00"+project+"\x00"+session)
}

// append collects the writes that add the turn to its session.
func (svc *Service) append(tx *records.Tx, c access.Caller, projectID, session string, t *transcript.Turn) (
	TurnResponse, error) {
	p, h, open, err := svc.forAppend(tx, c, projectID, session)
	if err != nil {
		return TurnResponse{}, err
	}
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return TurnResponse{}, err
	}
	out := TurnResponse{SessionID: session, Turn: h.Turns, Revision: h.Revision, Messages: []TurnMessage{}}
	if len(t.Messages) == 0 {
		return out, nil
	}
	headers, lineage, err := svc.WriteTurn(tx, t, h.Extent(), h.Lineage, open)
	if err != nil {
		return TurnResponse{}, err
	}
	h.grow(headers, lineage)
	for i := range headers {
		m, n := &headers[i], headers[i].Tokens[set.Encoding]
		out.Tokens += uint64(n)
		out.Messages = append(out.Messages,
			TurnMessage{ID: transcript.MessageID(h.Incarnation, m.Seq), Role: chat.RoleName(m.Role), Tokens: n})
	}
	h.LastActivity = tx.Now
	out.Turn, out.Revision = h.Turns, h.Revision
	return out, putSession(tx, p, session, h, open)
}

// putSession collects the writes that keep a session whose messages are written: its head, its open calls, and word
// that it has messages to be indexed.
func putSession(t *records.Tx, p *project.Record, id string, h *Head, open *transcript.OpenCalls) (err error) {
	if h.OpenCalls, err = open.Put(t, p.Incarnation, id, h.OpenCalls); err != nil {
		return err
	}
	if p.Recalls && h.Messages > 0 { // nothing is written in a project whose transcripts nobody searches
		t.Put(records.UnindexedJob.Key(p.Incarnation, h.Incarnation), UnindexedMark(h, id))
	}
	return t.PutJSON(records.Session.Key(p.Incarnation, id), h)
}

// UnindexedMark says in a job that a session has messages to be indexed. It differs with every turn, so that who is
// done with the session does not remove a later mark.
func UnindexedMark(h *Head, session string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, h.Messages), session...)
}

// forAppend reads, in one round trip, all that an append builds on, and expects it unchanged. A session that
// does not exist yet is a new one.
func (svc *Service) forAppend(t *records.Tx, c access.Caller, projectID, session string) (
	*project.Record, *Head, *transcript.OpenCalls, error) {
	var keys [][]byte
	p, got, raw, err := svc.projects.Read(t.Ctx, c, projectID, func(pinc ident.Incarnation) [][]byte {
		keys = [][]byte{records.Session.Key(pinc, session), records.OpenCalls.Key(pinc, session)}
		return keys
	})
	if err != nil {
		return nil, nil, nil, err
	}
	if got[0].Damaged || got[1].Damaged {
		return nil, nil, nil, records.ErrDamaged
	}
	t.Batch.Expect = append(t.Batch.Expect, store.Expect{Key: records.Project.Key(projectID), Value: raw},
		store.Expect{Key: keys[0], Value: got[0].Value})
	h, open := new(Head), new(transcript.OpenCalls)
	if got[0].Value == nil {
		h = (&Spec{}).head(svc.db.NewIncarnation(), t.Now)
	} else if err := json.Unmarshal(got[0].Value, h); err != nil {
		return nil, nil, nil, err
	}
	if err := h.CheckOpen(session); err != nil {
		return nil, nil, nil, err
	}
	if got[1].Value != nil {
		if err := json.Unmarshal(got[1].Value, open); err != nil {
			return nil, nil, nil, err
		}
	}
	if open.Incarnation != h.Incarnation { // those of a session of the same name that is gone
		open = &transcript.OpenCalls{Incarnation: h.Incarnation}
	}
	return p, h, open, nil
}
