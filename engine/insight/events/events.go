// Package events streams what happens to a session: turns, rewinds, summaries, and the windows made of it.
//
// Nothing is stored for followers. A follower's position consists of values that the store has anyway: the number of
// messages, the version of the summary, and the time of a decision. The id of each event contains all of them, so a
// reader can continue at any server.
package events

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// Service streams the events of sessions.
type Service struct {
	db        *records.DB
	sessions  *session.Service
	decisions *decision.Service
}

// New returns a Service.
func New(db *records.DB, sessions *session.Service, decisions *decision.Service) *Service {
	return &Service{db: db, sessions: sessions, decisions: decisions}
}

// The kinds of events. The data of a decision is a decision.Row.
const (
	kindTurn     = "turn"
	kindRewind   = "rewind"
	kindSummary  = "summary"
	kindDecision = "decision"
)

// Turn reports a new turn, or messages that were added to one.
type Turn struct {
	Turn     uint32 `json:"turn"`
	Messages int    `json:"messages"` // number of messages added
	Tokens   uint64 `json:"tokens"`   // of these messages, counted with o200k_base
	First    string `json:"first"`    // the ids of the first and the last of them
	Last     string `json:"last"`
	Revision uint64 `json:"revision"` // current revision of the session
}

// Rewind reports that turns were taken back.
type Rewind struct {
	Turns    uint32 `json:"turns"` // number of living turns now
	LastTurn uint32 `json:"last_turn"`
	Revision uint64 `json:"revision"`
}

// Summary reports a version of the running summary; version 0 means that it was deleted.
type Summary struct {
	Version        uint32 `json:"version"`
	CoversMessages uint64 `json:"covers_messages"`
}

// position is how far a follower has read.
type position struct {
	session    ident.Incarnation // zero if the session had no turn yet
	messages   uint64
	superseded uint64 // number of messages taken back
	summary    uint32
	at         int64  // time of the newest decision that was returned, in ms since 1970
	decision   string // its id
}

const idPrefix = "evt_"

// String returns the position as the id of an event.
func (p *position) String() string {
	b := append(make([]byte, 0, 36), p.session[:]...)
	b = binary.BigEndian.AppendUint64(b, p.messages)
	b = binary.BigEndian.AppendUint64(b, p.superseded)
	b = binary.BigEndian.AppendUint32(b, p.summary)
	b = binary.BigEndian.AppendUint64(b, uint64(p.at))
	return idPrefix + ident.Alphabet.EncodeToString(b) + "." + p.decision
}

// parse decodes what String returned.
func parse(id string) (p position, err error) {
	text, decision, ok := strings.Cut(strings.TrimPrefix(id, idPrefix), ".")
	b, wrong := ident.Alphabet.DecodeString(text)
	if !ok || wrong != nil || !strings.HasPrefix(id, idPrefix) || len(b) != 36 || len(decision) > 64 {
		return p, fault.InvalidField("Last-Event-ID", "invalid_id", "must be the id of an event of this session")
	}
	p = position{session: ident.Incarnation(b), messages: binary.BigEndian.Uint64(b[8:]),
		superseded: binary.BigEndian.Uint64(b[16:]), summary: binary.BigEndian.Uint32(b[24:]),
		at: int64(binary.BigEndian.Uint64(b[28:])), decision: decision}
	return p, nil
}

// follower is a feed of one session.
type follower struct {
	svc         *Service
	c           ident.Caller
	project, id string
	position
	// given are the recently returned decisions, by id, with their times. The decisions of two servers may become
	// visible in another order than they were made in.
	given map[string]time.Time
}

// lately is how long after others a decision may be stored.
const lately = 5 * time.Second

// Follow streams the events of a session that follow the event after; if it is empty, those from now on. It returns
// not_found if there is no such session, and invalid_id if after is not the id of one of its events.
func (svc *Service) Follow(ctx context.Context, c ident.Caller, projectID, id, after string) (records.Feed, error) {
	_, h, err := svc.sessions.Existing(ctx, c, projectID, id)
	if err != nil {
		return nil, err
	}
	f := &follower{svc: svc, c: c, project: projectID, id: id, given: map[string]time.Time{}}
	if after == "" {
		f.position = position{session: h.Incarnation, messages: h.Messages, superseded: superseded(h),
			summary: h.Covered().Version, at: svc.db.Now().UnixMilli()}
		return f, f.passOver(ctx, func(*decision.Row) bool { return true })
	}
	if f.position, err = parse(after); err != nil {
		return nil, err
	}
	if f.session != h.Incarnation && f.session != (ident.Incarnation{}) || f.messages > h.Messages {
		return nil, fault.InvalidField("Last-Event-ID", "invalid_id", "must be the id of an event of this session")
	}
	return f, f.passOver(ctx, func(row *decision.Row) bool {
		at := row.At.UnixMilli()
		return at < f.at || at == f.at && row.ID <= f.decision
	})
}

// superseded returns how many messages of a session were taken back.
func superseded(h *session.Head) uint64 { return h.Superseded.Messages(h.Messages) }

// passOver marks recent decisions as returned.
func (f *follower) passOver(ctx context.Context, which func(*decision.Row) bool) error {
	rows, err := f.decisions(ctx)
	for i := range rows {
		if which(&rows[i]) {
			f.given[rows[i].ID] = rows[i].At
			if rows[i].At.UnixMilli() == f.at {
				f.decision = max(f.decision, rows[i].ID)
			}
		}
	}
	return err
}

// News returns nil: the reader of the feed has to poll.
func (f *follower) News() <-chan struct{} { return nil }

// Close does nothing.
func (f *follower) Close() {}

// maxEvents is the maximum number of messages and of decisions that one Next reads. If there are more, the oldest are
// skipped.
const maxEvents = 4096

// Next returns what has happened since the last call.
func (f *follower) Next(ctx context.Context) ([]records.Event, error) {
	_, h, err := f.svc.sessions.Existing(ctx, f.c, f.project, f.id)
	if err != nil {
		return nil, err
	}
	if f.session != h.Incarnation {
		if f.session != (ident.Incarnation{}) {
			return nil, fault.Errorf(fault.NotFound, "not_found", "no session %q", f.id)
		}
		f.session = h.Incarnation // its first turn was added
	}
	var out []records.Event
	give := func(kind string, data any) {
		out = append(out, records.Event{Kind: kind, ID: f.String(), Data: data})
	}
	rows, err := f.decisions(ctx)
	if err != nil {
		return nil, err
	}
	giveDecisions := func(before uint32) { // returns the decisions made before a turn
		for len(rows) > 0 && rows[0].Turn < before {
			row := rows[0]
			rows = rows[1:]
			f.given[row.ID] = row.At
			if at := row.At.UnixMilli(); at > f.at || at == f.at && row.ID > f.decision {
				f.at, f.decision = at, row.ID
			}
			give(kindDecision, row)
		}
	}
	if n := superseded(h); n > f.superseded {
		x := h.Extent()
		f.superseded = n
		give(kindRewind, Rewind{x.LivingTurns(), x.LastTurn(), h.Revision})
	}
	turns, err := f.turns(ctx, h)
	if err != nil {
		return nil, err
	}
	for _, t := range turns {
		giveDecisions(t.Turn.Turn)
		f.messages = t.last
		give(kindTurn, t.Turn)
	}
	f.messages = h.Messages
	giveDecisions(math.MaxUint32)
	if now := h.Covered(); now.Version != f.summary {
		f.summary = now.Version
		give(kindSummary, Summary{now.Version, now.Count})
	}
	for id, at := range f.given {
		if at.Before(time.UnixMilli(f.at).Add(-2 * lately)) {
			delete(f.given, id)
		}
	}
	return out, nil
}

// added is a turn event with the number of its last message.
type added struct {
	Turn
	last uint64
}

// turns returns the turns of the messages after the position.
func (f *follower) turns(ctx context.Context, h *session.Head) (out []added, err error) {
	if h.Messages <= f.messages {
		return nil, nil
	}
	hs, _, err := f.svc.sessions.ReadHeaders(ctx, f.c.Tenant, h.Extent(), int(min(h.Messages-f.messages, maxEvents)), nil)
	if err != nil {
		return nil, err
	}
	for i := range hs {
		m := &hs[i]
		if m.Seq <= f.messages {
			continue
		}
		id := transcript.MessageID(h.Incarnation, m.Seq)
		if n := len(out); n == 0 || out[n-1].Turn.Turn != m.Turn {
			out = append(out, added{Turn: Turn{Turn: m.Turn, First: id, Revision: h.Revision}})
		}
		t := &out[len(out)-1]
		t.Messages++
		t.Tokens += uint64(m.Tokens[0])
		t.Last, t.last = id, m.Seq
	}
	return out, nil
}

// decisions returns the decisions that were not returned yet, oldest first. It leaves out forks, which describe the
// past.
func (f *follower) decisions(ctx context.Context) (out []decision.Row, err error) {
	since := time.UnixMilli(f.at).Add(-lately).UTC()
	for page := (records.Page{Limit: 100}); len(out) < maxEvents; {
		list, err := f.svc.decisions.List(ctx, f.c.Unconfined(), f.project, decision.Filter{Session: f.id, Since: &since}, page)
		if err != nil {
			return nil, err
		}
		for _, row := range list.Data {
			if _, given := f.given[row.ID]; !given && row.ForkOf == "" {
				out = append(out, row)
			}
		}
		if !list.HasMore {
			break
		}
		page.Cursor = *list.NextCursor
	}
	slices.SortFunc(out, func(a, b decision.Row) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return out, nil
}
