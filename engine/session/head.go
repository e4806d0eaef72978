package session

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"iter"
	"maps"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/callid"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Head is the main record of a session. It identifies the session's state: every commit to the session expects it
// unchanged, and each turn raises Revision, which orders all turns.
type Head struct {
	Incarnation  ident.Incarnation `json:"incarnation"`
	Revision     uint64            `json:"revision"`
	Turns        uint32            `json:"turns"`           // numbers assigned, like Messages: see Superseded
	Messages     uint64            `json:"messages"`        //
	Tokens       [2]uint64         `json:"tokens"`          // of the living messages, in each of project.Encodings
	Bytes        uint64            `json:"bytes,omitempty"` // of the stored message bodies
	OpenCalls    int               `json:"open_calls,omitempty"`
	Kind         string            `json:"kind"`
	Agent        string            `json:"agent,omitempty"`
	Title        string            `json:"title,omitempty"`
	Namespace    []string          `json:"namespace,omitempty"` // of its memories and messages; nil if it has none
	Metadata     ident.Metadata    `json:"metadata,omitempty"`
	Origin       string            `json:"origin,omitempty"` // see Spec
	Created      time.Time         `json:"created_at"`
	LastActivity time.Time         `json:"last_activity_at"`
	Summary      *SummaryHead      `json:"summary,omitempty"`
	Asked        uint64            `json:"asked,omitempty"` // the newest user message outside delegations
	// Closed means that later turns may have been lost, so their numbers must not be assigned again.
	Closed bool `json:"closed,omitempty"`
	// Lineage identifies the session's history. If the store loses turns in a failover and other turns get their
	// numbers, the lineages differ, so a process does not use what it remembers of the lost ones.
	Lineage transcript.Lineage `json:"lineage,omitempty"`
	// Superseded are the turns and messages that rewinds took back. Nothing is stored of those that are also Absent,
	// because the session is a copy of the living messages.
	Superseded transcript.Runs `json:"superseded,omitempty"`
	Absent     transcript.Runs `json:"absent,omitempty"`
	// Removed are the superseded turns and messages that a client has left out of its history. They are restored if it
	// sends them again. Changes counts the commits that removed or restored some.
	Removed transcript.Runs `json:"removed,omitempty"`
	Changes uint32          `json:"changes,omitempty"`
	// Edits is the number of changes that gave messages new versions. Each has a record; see transcript.Change.
	Edits uint32 `json:"edits,omitempty"`
	// Erased is the number of these changes, from the first, whose records are erased.
	Erased uint32     `json:"erased,omitempty"`
	Sent   *Sent      `json:"sent,omitempty"`  // the part of the history that a client has sent
	Forks  *Forks     `json:"forks,omitempty"` // nil if not known
	Names  callid.Own `json:"names,omitempty"` // tools' own names that formats do not allow, by the names shown instead
}

// Extent returns the extent of the whole session.
func (h *Head) Extent() transcript.Extent {
	return transcript.Extent{Incarnation: h.Incarnation, Turns: h.Turns, Messages: h.Messages, Superseded: h.Superseded,
		Edits: h.Edits}
}

// Supersede adds a turn of a file that a rewind took back and whose messages are not stored. Its number is used, and
// its messages are ignored.
func (h *Head) Supersede(t *transcript.Turn) {
	if t.Continues == 0 {
		h.Turns++
		h.Superseded = h.Superseded.Join(transcript.Run{Turns: [2]uint32{h.Turns, h.Turns},
			Messages: [2]uint64{h.Messages + 1, h.Messages}})
	}
}

// past returns the state of the session before its next turn.
func (h *Head) past() transcript.Past { return transcript.Past{Lineage: h.Lineage, Tokens: h.Tokens} }

// AsOf returns the part of the session that ends with a turn, or with the newest living turn before it, and the tokens
// of its messages. It returns out_of_range for a turn that the session never had.
func (svc *Service) AsOf(ctx context.Context, tenant string, h *Head, turn uint32, field string) (
	transcript.Extent, [2]uint64, error) {
	if turn > h.Turns {
		return transcript.Extent{}, [2]uint64{}, fault.InvalidField(field, "out_of_range",
			"must be from 0 to %d, the session's last turn", h.Turns)
	}
	x, tokens, err := svc.Until(ctx, tenant, h.Extent(), h.Tokens, turn)
	if err != nil || h.Changes == 0 || x.Turns == h.Turns {
		return x, tokens, err
	}
	// Turns after a removed one were stored with counts that include it.
	tokens, err = svc.CountTokens(ctx, tenant, x)
	return x, tokens, err
}

// CheckOpen returns session_closed if the session takes no more turns.
func (h *Head) CheckOpen(id string) error {
	if h.Closed {
		return fault.Errorf(fault.Conflict, "session_closed", "session %q may have lost turns to damaged files and takes "+
			"no more: go on in a new session, or delete this one", id)
	}
	return nil
}

// DecodeHead reads a session's head; nil if there is none.
func DecodeHead(it store.Item) (*Head, error) {
	if it.Damaged {
		return nil, records.ErrDamaged
	}
	if it.Value == nil {
		return nil, nil
	}
	h := new(Head)
	return h, json.Unmarshal(it.Value, h)
}

// Session returns a head in the form that clients see, without the text of its summary.
func (h *Head) Session(id string, encoding int) Session {
	x := h.Extent()
	s := Session{ID: id, Kind: h.Kind, Agent: h.Agent, Title: h.Title, Namespace: h.Namespace,
		Metadata: h.Metadata, Origin: h.Origin, Turns: x.LivingTurns(), LastTurn: x.LastTurn(),
		Messages: x.LivingMessages(), Tokens: h.Tokens[encoding], Revision: h.Revision,
		SummarizedCount: h.Covered().Count}
	if !h.Created.IsZero() {
		s.CreatedAt, s.LastActivityAt = &h.Created, &h.LastActivity
	}
	return s
}

// Counts reports whether a session counts as a conversation: `dashboard` does only once it has a turn.
func (h *Head) Counts(id string) bool { return id != ident.DefaultSession || h.Turns > 0 }

// grow adds the messages of the session's next turn, or of a part added to a turn. lineage is the lineage after them.
func (h *Head) grow(turn []transcript.Header, lineage transcript.Lineage) {
	h.Lineage = lineage
	h.Turns = max(h.Turns, turn[0].Turn)
	h.Revision++
	for i := range turn {
		m := &turn[i]
		h.Messages++
		h.Tokens[0] += uint64(m.Tokens[0])
		h.Tokens[1] += uint64(m.Tokens[1])
		h.Bytes += uint64(m.BodyBytes)
		if m.Role == plan.RoleUser && m.Delegation == "" {
			h.Asked = m.Seq
		}
	}
}

// ReadHead returns a session's project, its head, and the head's stored bytes. The head must not be changed. It is nil
// if there is none. It returns not_found if there is no such project, or if the caller does not reach the session's
// namespace.
func (svc *Service) ReadHead(ctx context.Context, c ident.Caller, projectID, id string) (
	*project.Record, *Head, []byte, error) {
	p, got, _, err := svc.projects.Read(ctx, c.Unconfined(), projectID, func(pinc ident.Incarnation) [][]byte {
		return [][]byte{records.Session.Key(pinc, id)}
	})
	if err != nil {
		return nil, nil, nil, err
	}
	h, err := svc.KnownHead(c.Tenant, p, id, got[0])
	if err == nil {
		err = h.CheckReach(c, id)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return p, h, got[0].Value, nil
}

// KnownHead is DecodeHead for callers that do not change the head: a head that this process has already read or written
// is not decoded again.
func (svc *Service) KnownHead(tenant string, p *project.Record, id string, it store.Item) (*Head, error) {
	if it.Damaged || it.Value == nil {
		return DecodeHead(it)
	}
	return svc.heads.Decode(headName(tenant, p.ID, id), it.Value)
}

// headName is the key under which a session's head is remembered.
func headName(tenant, projectID, id string) string { return ident.Join(tenant, projectID, id) }

// own returns a copy of the head that may be changed.
func (h *Head) own() *Head {
	changed := *h
	changed.Names = maps.Clone(h.Names)
	return &changed
}

// Read is ReadHead for a session that must exist; `dashboard` always does. It returns not_found.
func (svc *Service) Read(ctx context.Context, c ident.Caller, projectID, id string) (
	*project.Record, *Head, []byte, error) {
	if !ident.ValidID(id) {
		return nil, nil, nil, noSession(id)
	}
	p, h, raw, err := svc.ReadHead(ctx, c, projectID, id)
	if err == nil && h == nil {
		if id != ident.DefaultSession {
			return nil, nil, nil, noSession(id)
		}
		h = &Head{Kind: KindChat}
	}
	return p, h, raw, err
}

// Existing is Read without the head's bytes.
func (svc *Service) Existing(ctx context.Context, c ident.Caller, projectID, id string) (
	*project.Record, *Head, error) {
	p, h, _, err := svc.Read(ctx, c, projectID, id)
	return p, h, err
}

// replaced reports whether a session that seemed damaged has been replaced by another one; not_found means that it was
// deleted. A reader that found the old head may still be reading messages that are being swept.
func (svc *Service) replaced(ctx context.Context, c ident.Caller, projectID, id string, was ident.Incarnation) (
	bool, error) {
	_, h, err := svc.Existing(ctx, c, projectID, id)
	return err == nil && h.Incarnation != was, err
}

// NamedHead is a session's head with its id.
type NamedHead struct {
	Head
	ID string
}

// headsAtOnce is the maximum number of sessions that one commit of a purge removes.
const headsAtOnce = 500

// Heads visits the heads of a project whose session ids follow after, in the order of ids; "" starts at the first.
// Damaged heads are left out; requests for such a session report them.
func (svc *Service) Heads(ctx context.Context, tenant string, pinc ident.Incarnation, after string) iter.Seq2[
	NamedHead, error] {
	rng := records.Session.Under(pinc)
	rng.Limit = headsAtOnce + 1
	if after != "" { // one more, so that a purge sees with one read whether there are more
		rng.From = append(records.Session.Key(pinc, after), 0)
	}
	return func(yield func(NamedHead, error) bool) {
		for it, err := range svc.db.Scan(ctx, tenant, rng) {
			var h NamedHead
			if err == nil {
				_, h.ID, _ = records.Session.Split(it.Key)
				if it.Damaged || json.Unmarshal(it.Value, &h.Head) != nil {
					svc.db.Log.Error("a session's head is damaged", "tenant", tenant, "session", h.ID)
					continue
				}
			}
			if !yield(h, err) {
				return
			}
		}
	}
}

// drop collects the writes that delete a session. Background jobs sweep its messages and decisions.
func drop(t *records.Tx, pinc ident.Incarnation, id string, h *Head) {
	t.Delete(records.Session.Key(pinc, id))
	if h.OpenCalls > 0 {
		t.Delete(records.OpenCalls.Key(pinc, id))
	}
	t.Delete(records.SummaryJob.Key(h.Incarnation))
	t.Put(records.SessionJob.Key(h.Incarnation), pinc[:])
}

// dropDamaged is drop for a session whose head is damaged. Only the head knew which messages are the session's, so a
// job looks for messages that belong to no session.
func dropDamaged(t *records.Tx, pinc ident.Incarnation, id string) {
	t.Delete(records.Session.Key(pinc, id))
	t.Delete(records.OpenCalls.Key(pinc, id))
	t.Put(records.HeadlessJob.Key(pinc), []byte{0})
}

// Unborn returns the incarnation that is used for a session that does not exist yet. Deleting the session finds the
// decisions that were made under it.
func Unborn(session string) ident.Incarnation {
	sum := sha256.Sum256([]byte("unborn session " + session))
	return ident.Incarnation(sum[:8])
}

// dropUnborn queues the decisions that were made before the session existed for sweeping.
func dropUnborn(t *records.Tx, pinc ident.Incarnation, id string) {
	t.Put(records.SessionJob.Key(Unborn(id)), pinc[:])
}
