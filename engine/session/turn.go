package session

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// TurnRequest is what one run of an agent added.
type TurnRequest struct {
	SessionID    string            `json:"session_id,omitempty"`
	Agent        string            `json:"agent,omitempty"`
	DelegationID *string           `json:"delegation_id,omitempty"`
	Format       string            `json:"format,omitempty"`
	Messages     []json.RawMessage `json:"messages"`
}

// TurnResponse acknowledges a committed turn.
type TurnResponse struct {
	SessionID string        `json:"session_id"`
	Turn      uint32        `json:"turn"`
	Revision  uint64        `json:"revision"`
	Tokens    uint64        `json:"tokens"`
	Messages  []TurnMessage `json:"messages"`
	Skipped   []Skipped     `json:"skipped"`
}

// TurnMessage is one message of a committed turn.
type TurnMessage struct {
	ID     string `json:"id"`
	Role   string `json:"role"`
	Tokens uint32 `json:"tokens"`
}

// Skipped says which posted message was not stored, and why.
type Skipped struct {
	Index int    `json:"index"`
	Code  string `json:"code"`
}

// maxTurnMessages bounds one turn: its packed headers are one record, and it commits in one transaction.
const maxTurnMessages = 4096

// AppendTurn commits what one run of an agent added, whole or not at all. A turn of nothing but system messages
// stores nothing and answers the session as it stands.
func (svc *Service) AppendTurn(ctx context.Context, c access.Caller, once access.Once, projectID string,
	req TurnRequest) (TurnResponse, error) {
	if req.SessionID == "" {
		req.SessionID = ident.DefaultSession
	}
	t, err := parseTurn(&req)
	if err != nil {
		return TurnResponse{}, err
	}
	// Before the session is locked: counting tokens takes most of a turn's time.
	if err := svc.measureTurn(ctx, t); err != nil {
		return TurnResponse{}, err
	}
	size := t.size()
	if err := svc.checkQuota(ctx, c, size); err != nil {
		return TurnResponse{}, err
	}
	unlock, err := svc.Lock(ctx, c.Tenant, projectID, req.SessionID)
	if err != nil {
		return TurnResponse{}, err
	}
	defer unlock()
	out, err := records.Update(ctx, svc.db, c, once, func(tx *records.Tx) (TurnResponse, error) {
		return svc.append(tx, t, c, projectID, req.SessionID)
	})
	if err == nil {
		svc.MessageUse.Add(c.Tenant, records.Amount{Bytes: size})
	}
	return out, err
}

// size is what the turn's messages take, in bytes, without what is kept beside them.
func (t *ParsedTurn) size() (n int64) {
	for i := range t.Messages {
		n += int64(len(t.Messages[i].Raw))
	}
	return n
}

// Lock makes this process's writers to one session queue up.
func (svc *Service) Lock(ctx context.Context, tenant, project, session string) (unlock func(), err error) {
	return svc.db.Lock(ctx, tenant+"\x00"+project+"\x00"+session)
}

// append collects the writes that add the turn to its session.
func (svc *Service) append(tx *records.Tx, t *ParsedTurn, c access.Caller, projectID, session string) (TurnResponse, error) {
	p, h, open, err := svc.forAppend(tx, c, projectID, session)
	if err != nil {
		return TurnResponse{}, err
	}
	r, err := svc.projects.SetupOf(p)
	if err != nil {
		return TurnResponse{}, err
	}
	out := TurnResponse{SessionID: session, Turn: h.Turns, Revision: h.Revision, Messages: []TurnMessage{},
		Skipped: t.skipped}
	if len(t.Messages) == 0 {
		return out, nil
	}
	headers, err := svc.writeTurn(tx, t, h, open)
	if err != nil {
		return TurnResponse{}, err
	}
	for i := range headers {
		hd := &headers[i]
		out.Tokens += uint64(hd.Tokens[r.Encoding])
		out.Messages = append(out.Messages, TurnMessage{ID: MessageID(h.Incarnation, hd.Seq), Role: chat.RoleName(hd.Role),
			Tokens: hd.Tokens[r.Encoding]})
	}
	if err := putOpenCalls(tx, p, session, h, open); err != nil {
		return TurnResponse{}, err
	}
	h.LastActivity = tx.Now
	markUnindexed(tx, p, h, session)
	out.Turn, out.Revision = h.Turns, h.Revision
	return out, tx.PutJSON(records.Session.Key(p.Incarnation, session), h)
}

// writeTurn collects the records of the turn's messages as the session's next turn and brings head and open up to date.
func (svc *Service) writeTurn(tx *records.Tx, t *ParsedTurn, h *Head, open *OpenCalls) ([]Header, error) {
	h.Turns++
	h.Revision++
	headers, err := svc.NumberTurn(tx.Ctx, t, h, open, tx.Now)
	if err != nil {
		return nil, err
	}
	for i := range headers {
		hd := &headers[i]
		h.Tokens[0] += uint64(hd.Tokens[0])
		h.Tokens[1] += uint64(hd.Tokens[1])
		if hd.Role == plan.RoleUser && hd.Delegation == "" {
			h.Asked = hd.Seq
		}
		h.Bytes += uint64(hd.bodyBytes)
		putBody(tx, h.Incarnation, hd, &t.Messages[i].Message)
	}
	packed := appendHeaders(nil, headers)
	if len(packed) > store.MaxValue {
		return nil, fault.Errorf(fault.TooLarge, "turn_too_large", "the turn's names and tags take %d bytes, at most %d are possible",
			len(packed), store.MaxValue)
	}
	tx.Put(records.Headers.Key(h.Incarnation, h.Turns), packed)
	h.Messages += uint64(len(headers))
	return headers, nil
}

// forAppend reads, in one round trip, all that an append builds on, and expects it unchanged. A session that
// does not exist yet is a new one.
func (svc *Service) forAppend(t *records.Tx, c access.Caller, projectID, session string) (*project.Record, *Head, *OpenCalls, error) {
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
	if got[0].Value == nil {
		h := (&Spec{}).head(svc.db.NewIncarnation(), t.Now)
		return p, h, &OpenCalls{Incarnation: h.Incarnation}, nil
	}
	h, open := new(Head), new(OpenCalls)
	if err := json.Unmarshal(got[0].Value, h); err != nil {
		return nil, nil, nil, err
	}
	if got[1].Value != nil {
		if err := json.Unmarshal(got[1].Value, open); err != nil {
			return nil, nil, nil, err
		}
	}
	if open.Incarnation != h.Incarnation {
		open = &OpenCalls{Incarnation: h.Incarnation}
	}
	return p, h, open, nil
}

// putBody writes a message's body.
func putBody(t *records.Tx, sinc ident.Incarnation, h *Header, m *chat.Message) {
	t.Put(records.Body.Key(sinc, h.Seq), appendBody(make([]byte, 0, int(h.bodyBytes)), h, m))
}

// NumberTurn numbers the turn's messages behind the session's last one, answers open calls with results, and counts
// tokens. open is brought up to date.
func (svc *Service) NumberTurn(ctx context.Context, t *ParsedTurn, h *Head, open *OpenCalls, now time.Time) ([]Header, error) {
	if err := svc.measureTurn(ctx, t); err != nil {
		return nil, err
	}
	headers := slices.Clone(t.headers) // a retry starts from what was measured
	var bad []chat.FieldError
	for i := range t.Messages {
		m := &t.Messages[i].Message
		if m.Agent == "" {
			m.Agent = t.Agent
		}
		if m.Delegation == "" {
			m.Delegation = t.Delegation
		}
		hd := &headers[i]
		hd.Turn, hd.Agent, hd.Delegation = h.Turns, m.Agent, m.Delegation
		svc.measureQuestion(hd)
		hd.Seq = h.Messages + uint64(i) + 1
		hd.Call = hd.Seq
		hd.Created = now.UnixMilli()
		if t.created != nil {
			hd.Created = t.created[i].UnixMilli()
		} else if !m.CreatedAt.IsZero() {
			hd.Created = m.CreatedAt.UnixMilli()
		}
		if problem := open.follow(m, hd); problem != nil {
			problem.Index = t.Messages[i].Index
			bad = append(bad, *problem)
		}
		hd.bodyBytes = uint32(len(appendHeaders(nil, headers[i:i+1])) + 1 + len(m.Raw))
	}
	if len(bad) > 0 {
		return nil, refuseMessages(bad)
	}
	return headers, nil
}

// measureTurn makes the headers of the turn's messages as far as the messages alone tell, once.
func (svc *Service) measureTurn(ctx context.Context, t *ParsedTurn) error {
	for len(t.headers) < len(t.Messages) {
		if err := ctx.Err(); err != nil {
			return err
		}
		t.headers = append(t.headers, svc.header(&t.Messages[len(t.headers)].Message))
	}
	return nil
}

// header fills in what a message alone tells.
func (svc *Service) header(m *chat.Message) Header {
	h := Header{Role: m.Role, Kind: m.Kind, TextBytes: uint32(len(m.Text)), Calls: uint16(len(m.Calls)), Tags: m.Tags}
	if m.IsError {
		h.Flags |= plan.FlagErrorResult
	}
	if m.Images > 0 {
		h.Flags |= plan.FlagImage
	}
	if m.Empty() {
		h.Flags |= FlagEmpty
	}
	if len(m.Calls) == 1 {
		h.Tool = m.Calls[0].Name
	}
	svc.measure(&h, m)
	return h
}

// FlagEmpty marks, in stored headers only, a message that costs Anthropic's placeholder. Policies never see it.
const FlagEmpty plan.Flags = 1 << 15

// MessageID names a message: by its session's incarnation and its number there.
func MessageID(sinc ident.Incarnation, seq uint64) string {
	return "msg_" + ident.Alphabet.EncodeToString(sinc[:5]) + "_" + strconv.FormatUint(seq, 10)
}
