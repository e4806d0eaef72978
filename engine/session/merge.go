package session

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// MergeRequest is a stretch of a conversation in the file of another program. Each message has source ids, and a
// session remembers those that it has, so that the same stretch can be merged again.
type MergeRequest struct {
	Session Spec // its id is that of the conversation
	Created time.Time
	// ForkOf is the session that has the messages up to After, if the conversation is a copy that went on elsewhere.
	ForkOf string
	// After is the source id that the first message follows; "" if it is the first of the conversation.
	After string
	// Turns are numbered in any way. A turn that Continues belongs to the turn of After.
	Turns  []FileTurn
	DryRun bool // only report what would be added
}

// Merged is what MergeRequest has added.
type Merged struct {
	SessionID string         `json:"session_id"` // that has the messages now: the conversation's own, or a fork
	Made      bool           `json:"made"`       // the session is new
	Turns     int            `json:"turns"`
	Messages  int            `json:"messages"`
	Skipped   []chat.Skipped `json:"skipped,omitempty"`
}

// maxBranches is the maximum number of sessions that hold the branches of one conversation.
const maxBranches = 64

// Merge adds to a session what it lacks of a conversation. If the session has all the messages up to some point and none
// after it, the rest is added to it, and a turn that grew goes on. If the conversation took another course, the rest goes
// to a fork of the session, named after it. If there is no session, it is made. It returns not_found if ForkOf or After
// is not stored, too_many_branches, and the errors of Import and AppendTurn.
func (svc *Service) Merge(ctx context.Context, c ident.Caller, projectID string, req MergeRequest) (Merged, error) {
	base, err := svc.forkBase(ctx, c, projectID, &req)
	if err != nil {
		return Merged{}, err
	}
	for n := 1; n <= maxBranches; n++ {
		id := req.Session.ID
		if n > 1 {
			id = ident.ForkOf(id, n)
		}
		b, err := svc.readBranch(ctx, c, projectID, id, &req)
		switch {
		case err != nil:
			return Merged{}, err
		case b.head == nil:
			req.Session.ID = id
			return svc.mergeNew(ctx, c, projectID, &req, &base)
		case b.fits():
			return svc.mergeRest(ctx, c, projectID, &req, &b)
		}
		if base.head == nil || b.from+b.taken > base.from+base.taken {
			base = b
		}
	}
	return Merged{}, fault.Errorf(fault.Conflict, "too_many_branches",
		"the conversation %q has more than %d branches", req.Session.ID, maxBranches)
}

// forkBase returns the session that a copy of a conversation went on from: ForkOf, or a branch of it.
func (svc *Service) forkBase(ctx context.Context, c ident.Caller, projectID string, req *MergeRequest) (branch, error) {
	for n := 1; n <= maxBranches && req.ForkOf != ""; n++ {
		id := req.ForkOf
		if n > 1 {
			id = ident.ForkOf(id, n)
		}
		b, err := svc.readBranch(ctx, c, projectID, id, req)
		if err != nil || b.head != nil && b.from >= 0 {
			return b, err
		}
		if b.head == nil {
			return b, fault.Errorf(fault.NotFound, "not_found", "session %q has no message %q", req.ForkOf, req.After)
		}
	}
	return branch{}, nil
}

// branch is a session beside the conversation that is merged into it.
type branch struct {
	id   string
	head *Head // nil if there is no such session
	// known are the source ids of the session's living messages, in order. at are the numbers of these messages.
	known []string
	at    []uint64
	// through are the numbers of living messages up to that one, with those that were posted as one with it.
	through []int
	from    int  // where in known the conversation begins; -1 if it does not
	taken   int  // how many ids of the conversation follow there
	path    int  // how many ids the conversation has
	more    bool // the session has messages without source ids at its end
}

// fits reports whether the session can have the conversation: nothing of the session contradicts it.
func (b *branch) fits() bool {
	return b.from >= 0 && (b.taken == b.path || b.from+b.taken == len(b.known) && !b.more)
}

// readBranch compares a session with the conversation.
func (svc *Service) readBranch(ctx context.Context, c ident.Caller, projectID, id string, req *MergeRequest) (
	branch, error) {
	b := branch{id: id}
	_, h, _, err := svc.ReadHead(ctx, c, projectID, id)
	if err != nil || h == nil {
		return b, err
	}
	b.head = h
	hs, _, err := svc.ReadHeaders(ctx, c.Tenant, h.Extent(), math.MaxInt32, nil)
	if err != nil {
		return b, err
	}
	for i := range hs {
		b.more = len(hs[i].Sources) == 0
		if i > 0 && postedWith(&hs[i-1], &hs[i]) {
			for j := len(b.through) - len(hs[i].Sources); j < len(b.through); j++ {
				b.through[j] = i + 1
			}
			continue
		}
		for _, source := range hs[i].Sources {
			b.known, b.at, b.through = append(b.known, source), append(b.at, hs[i].Seq), append(b.through, i+1)
		}
	}
	b.match(req)
	return b, nil
}

// postedWith reports whether two messages were posted as one: results and what a user wrote below them.
func postedWith(before, m *transcript.Header) bool {
	return before.Role == plan.RoleTool && (m.Role == plan.RoleTool || m.Role == plan.RoleUser) && len(m.Sources) > 0 &&
		slices.Equal(before.Sources, m.Sources)
}

// match finds where the conversation begins in the session, and how far both agree.
func (b *branch) match(req *MergeRequest) {
	var path []string
	for _, turn := range req.Turns {
		for _, m := range turn.Messages {
			path = append(path, m.SourceIDs...)
		}
	}
	b.path = len(path)
	b.from = -1
	switch {
	case req.After != "":
		for i, id := range slices.Backward(b.known) { // several messages may be made of one record
			if id == req.After {
				b.from = i + 1
				break
			}
		}
	case len(b.known) == 0 || len(path) == 0:
		b.from = 0
	default:
		b.from = slices.Index(b.known, path[0])
	}
	if b.from < 0 {
		return
	}
	for b.taken < len(path) && b.from+b.taken < len(b.known) && b.known[b.from+b.taken] == path[b.taken] {
		b.taken++
	}
}

// rest returns what the session lacks of the conversation. If a stored message has grown, its turn is returned whole,
// and from is the number of its first stored message; otherwise from is 0.
func (b *branch) rest(turns []FileTurn) (out []FileTurn, from uint64) {
	left := b.taken // ids that are stored already
	for _, turn := range turns {
		begin, kept := b.taken-left, 0
		for kept < len(turn.Messages) && left >= len(turn.Messages[kept].SourceIDs) {
			left -= len(turn.Messages[kept].SourceIDs)
			kept++
		}
		switch {
		case kept == len(turn.Messages):
			continue
		case left > 0: // the message has grown
			from, left = b.at[b.from+begin], 0
		case kept > 0:
			turn.Messages, turn.Continues = turn.Messages[kept:], true
		}
		out = append(out, turn)
	}
	return out, from
}

// mergeRest adds to a session what it lacks, one turn after the other. If it is interrupted, the next request goes on.
func (svc *Service) mergeRest(ctx context.Context, c ident.Caller, projectID string, req *MergeRequest, b *branch) (
	Merged, error) {
	out := Merged{SessionID: b.id}
	rest, from := b.rest(req.Turns)
	if from > 0 && len(rest) > 0 && rest[0].Continues {
		return out, grown(b.id)
	}
	revision := b.head.Revision
	for i := range rest {
		out.add(&rest[i])
		if req.DryRun {
			continue
		}
		append := TurnRequest{SessionID: b.id, Continues: rest[i].Continues, IfRevision: &revision, Mode: transcript.ModeRepair,
			Dated: true}
		if i == 0 && from > 0 {
			to, err := svc.turnBefore(ctx, c, b, from)
			if err != nil {
				return out, err
			}
			append.RewindTo = &to
		}
		done, err := svc.mergeTurn(ctx, c, projectID, append, &rest[i], req.Created)
		if err != nil {
			return out, err
		}
		out.Skipped, revision = concat(out.Skipped, done.Skipped), done.Revision
	}
	return out, nil
}

func concat(a, b []chat.Skipped) []chat.Skipped { return append(slices.Clip(a), b...) }

// add counts a turn and its messages.
func (m *Merged) add(t *FileTurn) {
	m.Messages += len(t.Messages)
	if !t.Continues {
		m.Turns++
	}
}

func grown(id string) error {
	return fault.Errorf(fault.Conflict, "message_grown",
		"a message of session %q has grown in a turn of which the file has only a part", id)
}

// turnBefore returns the number of the newest living turn before the one that begins with a message. It returns
// message_grown if the message does not begin its turn.
func (svc *Service) turnBefore(ctx context.Context, c ident.Caller, b *branch, seq uint64) (uint32, error) {
	hs, _, err := svc.ReadHeaders(ctx, c.Tenant, b.head.Extent(), math.MaxInt32, nil)
	if err != nil {
		return 0, err
	}
	before := uint32(0)
	for i := range hs {
		if hs[i].Seq < seq {
			before = hs[i].Turn
			continue
		}
		if hs[i].Turn == before {
			return 0, grown(b.id)
		}
		break
	}
	return before, nil
}

// mergeTurn is AppendTurn for a turn of a file.
func (svc *Service) mergeTurn(ctx context.Context, c ident.Caller, projectID string, req TurnRequest, turn *FileTurn,
	created time.Time) (TurnResponse, error) {
	t, skipped, err := turn.parse(transcript.ParseRepaired, created)
	if err == nil {
		err = svc.Measure(ctx, t)
	}
	if err == nil {
		err = svc.checkQuota(ctx, c, t.Bytes())
	}
	if err == nil {
		err = svc.storeBlobs(ctx, c, projectID, req.SessionID, t)
	}
	if err != nil {
		return TurnResponse{}, err
	}
	unlock, err := svc.Lock(ctx, c.Tenant, projectID, req.SessionID)
	if err != nil {
		return TurnResponse{}, err
	}
	defer unlock()
	return records.Update(ctx, svc.db, c, ident.Once{}, func(tx *records.Tx) (TurnResponse, error) {
		out, repaired, err := svc.append(tx, c, projectID, &req, t)
		out.Skipped = transcript.SortSkipped(append(slices.Clip(skipped), repaired...))
		return out, err
	})
}

// mergeNew makes the session of a conversation: a copy of the messages that it shares with base, if that exists, and
// then its own.
func (svc *Service) mergeNew(ctx context.Context, c ident.Caller, projectID string, req *MergeRequest, base *branch) (
	Merged, error) {
	out := Merged{SessionID: req.Session.ID}
	f := File{Version: 1, Session: req.Session, Created: req.Created, Mode: transcript.ModeRepair}
	f.Session.Origin = OriginImport
	own := req.Turns
	if base.head != nil && base.from >= 0 {
		var err error
		if f.Turns, own, err = svc.shared(ctx, c, base, req.Turns); err != nil {
			return out, err
		}
	}
	for i := range own {
		out.add(&own[i])
	}
	out.Made = len(own) > 0
	if req.DryRun || len(own) == 0 {
		return out, nil
	}
	f.Turns = append(f.Turns, own...)
	turns := uint32(0)
	for i := range f.Turns {
		t := &f.Turns[i]
		if t.Continues = t.Continues && turns > 0; !t.Continues {
			turns++
		}
		t.Turn = turns
	}
	made, err := svc.Import(ctx, c, ident.Once{}, projectID, f)
	out.Skipped = made.Skipped
	return out, err
}

// errShared ends the reading of the shared messages.
var errShared = errors.New("the last shared message was read")

// shared returns the turns that a conversation shares with a session, and those of its own. They differ from the first
// message on that is not the same whole.
func (svc *Service) shared(ctx context.Context, c ident.Caller, b *branch, turns []FileTurn) (
	shared, own []FileTurn, err error) {
	upto, size, read := b.from+b.taken, 0, 0 // upto is an index in known
	for upto > 0 && upto < len(b.at) && b.at[upto-1] == b.at[upto] {
		upto-- // only whole messages are shared
	}
	cut := *b
	cut.taken = max(0, upto-b.from)
	own, grown := cut.rest(turns)
	if grown > 0 { // the conversation's message is longer than the session's: its turn is its own
		upto = slices.Index(b.at, grown)
	}
	if upto == 0 {
		return nil, own, nil
	}
	begins := false // the beginning of a turn was removed
	err = svc.eachTurn(ctx, c.Tenant, b.head, func(t FileTurn) error {
		if t.Superseded {
			return nil
		}
		t.Messages = slices.DeleteFunc(t.Messages, func(m FileMessage) bool { return m.Removed })
		if len(t.Messages) == 0 {
			begins = begins || !t.Continues
			return nil
		}
		t.Continues, begins = t.Continues && !begins, false
		for i := range t.Messages {
			if size += len(t.Messages[i].Message); size > maxFile {
				return fault.Errorf(fault.TooLarge, "session_too_large", "the shared messages take more than %d bytes", maxFile)
			}
			t.Messages[i].Made, t.Messages[i].Reminder = nil, nil // they are about the other session's windows
			if read++; read >= b.through[upto-1] {
				t.Messages = t.Messages[:i+1]
				shared = append(shared, t)
				return errShared
			}
		}
		shared = append(shared, t)
		return nil
	})
	if err != nil && !errors.Is(err, errShared) {
		return nil, nil, err
	}
	return shared, own, nil
}
