package engine

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
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
func (e *Engine) AppendTurn(ctx context.Context, c Caller, once Once, projectID string,
	req TurnRequest) (TurnResponse, error) {
	if req.SessionID == "" {
		req.SessionID = DefaultSession
	}
	t, err := parseTurn(&req)
	if err != nil {
		return TurnResponse{}, err
	}
	// Before the session is locked: counting tokens takes most of a turn's time.
	if err := e.measureTurn(ctx, t); err != nil {
		return TurnResponse{}, err
	}
	size := t.size()
	if err := e.checkQuota(ctx, c, size); err != nil {
		return TurnResponse{}, err
	}
	unlock, err := e.lockSession(ctx, c.Tenant, projectID, req.SessionID)
	if err != nil {
		return TurnResponse{}, err
	}
	defer unlock()
	out, err := update(ctx, e, c, once, func(tx *tx) (TurnResponse, error) {
		return e.append(tx, t, c, projectID, req.SessionID)
	})
	if err == nil {
		e.messageUse.add(c.Tenant, amount{bytes: size})
	}
	return out, err
}

// size is what the turn's messages take, in bytes, without what is kept beside them.
func (t *parsedTurn) size() (n int64) {
	for i := range t.messages {
		n += int64(len(t.messages[i].Raw))
	}
	return n
}

// lockSession makes this process's writers to one session queue up.
func (e *Engine) lockSession(ctx context.Context, tenant, project, session string) (unlock func(), err error) {
	return e.lock(ctx, tenant+"\x00"+project+"\x00"+session)
}

// append collects the writes that add the turn to its session.
func (e *Engine) append(tx *tx, t *parsedTurn, c Caller, projectID, session string) (TurnResponse, error) {
	p, h, open, err := tx.sessionForAppend(c, projectID, session)
	if err != nil {
		return TurnResponse{}, err
	}
	r, err := e.setupOf(p)
	if err != nil {
		return TurnResponse{}, err
	}
	out := TurnResponse{SessionID: session, Turn: h.Turns, Revision: h.Revision, Messages: []TurnMessage{},
		Skipped: t.skipped}
	if len(t.messages) == 0 {
		return out, nil
	}
	headers, err := e.writeTurn(tx, t, h, open)
	if err != nil {
		return TurnResponse{}, err
	}
	for i := range headers {
		hd := &headers[i]
		out.Tokens += uint64(hd.tokens[r.encoding])
		out.Messages = append(out.Messages, TurnMessage{ID: messageID(h.Incarnation, hd.seq), Role: chat.RoleName(hd.role),
			Tokens: hd.tokens[r.encoding]})
	}
	if err := tx.putOpenCalls(p, session, h, open); err != nil {
		return TurnResponse{}, err
	}
	h.LastActivity = tx.now
	tx.markUnindexed(p, h, session)
	out.Turn, out.Revision = h.Turns, h.Revision
	return out, tx.putJSON(kindSession.Key(p.Incarnation, session), h)
}

// writeTurn collects the records of the turn's messages as the session's next turn and brings head and open up to date.
func (e *Engine) writeTurn(tx *tx, t *parsedTurn, h *head, open *openCalls) ([]header, error) {
	h.Turns++
	h.Revision++
	headers, err := e.numberTurn(tx.ctx, t, h, open, tx.now)
	if err != nil {
		return nil, err
	}
	for i := range headers {
		hd := &headers[i]
		h.Tokens[0] += uint64(hd.tokens[0])
		h.Tokens[1] += uint64(hd.tokens[1])
		if hd.role == plan.RoleUser && hd.delegation == "" {
			h.Asked = hd.seq
		}
		h.Bytes += uint64(hd.bodyBytes)
		tx.putBody(h.Incarnation, hd, &t.messages[i].Message)
	}
	packed := appendHeaders(nil, headers)
	if len(packed) > store.MaxValue {
		return nil, errorf(TooLarge, "turn_too_large", "the turn's names and tags take %d bytes, at most %d are possible",
			len(packed), store.MaxValue)
	}
	tx.put(kindHeaders.Key(h.Incarnation, h.Turns), packed)
	h.Messages += uint64(len(headers))
	return headers, nil
}

// sessionForAppend reads, in one round trip, all that an append builds on, and expects it unchanged. A session that
// does not exist yet is a new one.
func (t *tx) sessionForAppend(c Caller, projectID, session string) (*project, *head, *openCalls, error) {
	var keys [][]byte
	p, got, raw, err := t.e.readProject(t.ctx, c, projectID, func(pinc incarnation) [][]byte {
		keys = [][]byte{kindSession.Key(pinc, session), kindOpenCalls.Key(pinc, session)}
		return keys
	})
	if err != nil {
		return nil, nil, nil, err
	}
	if got[0].Damaged || got[1].Damaged {
		return nil, nil, nil, errDamaged
	}
	t.batch.Expect = append(t.batch.Expect, store.Expect{Key: kindProject.Key(projectID), Value: raw},
		store.Expect{Key: keys[0], Value: got[0].Value})
	if got[0].Value == nil {
		h := (&SessionSpec{}).head(t.e.newIncarnation(), t.now)
		return p, h, &openCalls{Incarnation: h.Incarnation}, nil
	}
	h, open := new(head), new(openCalls)
	if err := json.Unmarshal(got[0].Value, h); err != nil {
		return nil, nil, nil, err
	}
	if got[1].Value != nil {
		if err := json.Unmarshal(got[1].Value, open); err != nil {
			return nil, nil, nil, err
		}
	}
	if open.Incarnation != h.Incarnation {
		open = &openCalls{Incarnation: h.Incarnation}
	}
	return p, h, open, nil
}

// putBody writes a message's body.
func (t *tx) putBody(sinc incarnation, h *header, m *chat.Message) {
	t.put(kindBody.Key(sinc, h.seq), appendBody(make([]byte, 0, int(h.bodyBytes)), h, m))
}

// numberTurn numbers the turn's messages behind the session's last one, answers open calls with results, and counts
// tokens. open is brought up to date.
func (e *Engine) numberTurn(ctx context.Context, t *parsedTurn, h *head, open *openCalls, now time.Time) ([]header, error) {
	if err := e.measureTurn(ctx, t); err != nil {
		return nil, err
	}
	headers := slices.Clone(t.headers) // a retry starts from what was measured
	var bad []chat.FieldError
	for i := range t.messages {
		m := &t.messages[i].Message
		if m.Agent == "" {
			m.Agent = t.agent
		}
		if m.Delegation == "" {
			m.Delegation = t.delegation
		}
		hd := &headers[i]
		hd.turn, hd.agent, hd.delegation = h.Turns, m.Agent, m.Delegation
		e.measureQuestion(hd)
		hd.seq = h.Messages + uint64(i) + 1
		hd.call = hd.seq
		hd.created = now.UnixMilli()
		if t.created != nil {
			hd.created = t.created[i].UnixMilli()
		} else if !m.CreatedAt.IsZero() {
			hd.created = m.CreatedAt.UnixMilli()
		}
		if problem := open.follow(m, hd); problem != nil {
			problem.Index = t.messages[i].Index
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
func (e *Engine) measureTurn(ctx context.Context, t *parsedTurn) error {
	for len(t.headers) < len(t.messages) {
		if err := ctx.Err(); err != nil {
			return err
		}
		t.headers = append(t.headers, e.header(&t.messages[len(t.headers)].Message))
	}
	return nil
}

// header fills in what a message alone tells.
func (e *Engine) header(m *chat.Message) header {
	h := header{role: m.Role, kind: m.Kind, textBytes: uint32(len(m.Text)), calls: uint16(len(m.Calls)), tags: m.Tags}
	if m.IsError {
		h.flags |= plan.FlagErrorResult
	}
	if m.Images > 0 {
		h.flags |= plan.FlagImage
	}
	if m.Empty() {
		h.flags |= flagEmpty
	}
	if len(m.Calls) == 1 {
		h.tool = m.Calls[0].Name
	}
	e.measure(&h, m)
	return h
}

// flagEmpty marks, in stored headers only, a message that costs Anthropic's placeholder. Policies never see it.
const flagEmpty plan.Flags = 1 << 15

// messageID names a message: by its session's incarnation and its number there.
func messageID(sinc incarnation, seq uint64) string {
	return "msg_" + idAlphabet.EncodeToString(sinc[:5]) + "_" + strconv.FormatUint(seq, 10)
}
