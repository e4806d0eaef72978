package session

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// ForkRequest asks for a copy of a session up to a turn.
type ForkRequest struct {
	AtTurn *uint32 `json:"at_turn,omitempty"` // nil means all turns
	As     string  `json:"as,omitempty"`      // the new session's id; "" means a generated one
}

// maxForked is the maximum number of messages in a fork.
const maxForked = 10_000

// Fork copies the living turns of a session, up to a turn, into a new session. It copies everything or nothing. Turns
// and messages keep their numbers, and the newest summary that covers only copied messages is copied, too. It returns
// not_found, out_of_range for a turn that the session never had, session_exists if the id is taken, session_too_large,
// quota_exceeded, and storage_damaged if a message cannot be read.
func (svc *Service) Fork(ctx context.Context, c ident.Caller, once ident.Once, projectID, id string,
	req ForkRequest) (Session, error) {
	if req.As != "" {
		if err := ident.CheckID("as", req.As); err != nil {
			return Session{}, err
		}
	}
	prior, found, err := records.GivenBefore[Session](ctx, svc.db, c, once)
	if found || err != nil {
		return svc.forked(ctx, c, projectID, prior), err
	}
	_, from, err := svc.Existing(ctx, c, projectID, id)
	if err != nil {
		return Session{}, err
	}
	x, err := svc.forkExtent(ctx, c, from, req.AtTurn)
	if err != nil {
		return Session{}, err
	}
	var in *staged
	var size int64
	s, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (Session, error) {
		if req.As == "" {
			req.As = svc.db.NewID("ses_", 10)
		}
		p, set, err := svc.placeFor(t, c, projectID, req.As, "; choose another id")
		if err != nil {
			return Session{}, err
		}
		if in == nil { // once, however often the commit below is retried
			spec := from.spec(req.As)
			in, err = svc.stage(ctx, c, p, &spec, t.Now)
			if err != nil {
				return Session{}, err
			}
			size, err = svc.copyTo(ctx, c, in, from, x)
			if err != nil {
				return Session{}, err
			}
		}
		summary, err := svc.SummaryWithin(ctx, c.Tenant, from, x)
		if err != nil {
			return Session{}, err
		}
		h, err := in.putHead(t, p, req.As, summary.file())
		if err != nil {
			return Session{}, err
		}
		return h.Session(req.As, set.Encoding).Untitled(), nil
	})
	if err != nil {
		return s, svc.abandonFork(ctx, c, projectID, id, from, in, err)
	}
	svc.MessageUse.Add(c.Tenant, records.Amount{Bytes: size})
	return svc.forked(ctx, c, projectID, s), nil
}

// abandonFork deletes what a failed fork has copied, if anything. It returns not_found if the session was deleted in
// the meantime, and otherwise the error that the fork failed with.
func (svc *Service) abandonFork(ctx context.Context, c ident.Caller, projectID, id string, from *Head, in *staged,
	err error) error {
	if in != nil {
		in.Abandon(ctx)
	}
	replaced, gone := svc.replaced(ctx, c, projectID, id, from.Incarnation)
	switch {
	case gone != nil:
		return gone
	case replaced:
		return noSession(id)
	}
	return err
}

// forkExtent returns what of a session a fork at a turn copies; nil means the last turn.
func (svc *Service) forkExtent(ctx context.Context, c ident.Caller, from *Head, atTurn *uint32) (transcript.Extent, error) {
	to := from.Turns
	if atTurn != nil {
		to = *atTurn
	}
	x, _, err := svc.AsOf(ctx, c.Tenant, from, to, "at_turn")
	if err != nil {
		return x, err
	}
	if n := x.LivingMessages(); n > maxForked {
		return x, fault.Errorf(fault.TooLarge, "session_too_large",
			"a fork can have at most %d messages, and there are %d up to turn %d: fork at an earlier turn", maxForked, n, to)
	}
	return x, nil
}

// copyTo copies the messages of an extent to a staged session, and returns their size in bytes.
func (svc *Service) copyTo(ctx context.Context, c ident.Caller, in *staged, from *Head, x transcript.Extent) (size int64, err error) {
	copied, err := svc.Copy(in.Staging, x, in.head.Incarnation, func(bytes int64) error {
		size = bytes
		return svc.checkQuota(ctx, c, bytes)
	})
	if err != nil {
		return size, err
	}
	in.order.Open.Calls = copied.Open
	in.head.fork(from, x, copied)
	return size, nil
}

// fork fills in the head of a copy of the messages that are alive in an extent of another session. Nothing is stored of
// the others.
func (h *Head) fork(from *Head, x transcript.Extent, copied transcript.Copied) {
	h.Turns, h.Messages, h.Superseded, h.Absent = x.Turns, x.Messages, x.Superseded, x.Superseded
	h.Tokens, h.Bytes, h.Asked = copied.Tokens, copied.Bytes, copied.Asked
	h.Revision = uint64(x.LivingTurns())
	h.Changes = from.Changes // Then the headers' counts of earlier tokens are not those of the living messages.
	h.Names = from.Names
	h.Lineage = from.Lineage.Branch("fork", h.Incarnation)
}

// forked puts texts written by people and models back into a response. Responses to idempotent requests are stored
// without them.
func (svc *Service) forked(ctx context.Context, c ident.Caller, projectID string, s Session) Session {
	if now, err := svc.Get(ctx, c, projectID, s.ID); err == nil {
		s.Title, s.Metadata, s.Summary = now.Title, now.Metadata, now.Summary
	}
	return s
}
