package session

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// RewindRequest asks to supersede all turns after ToTurn. 0 supersedes all turns.
type RewindRequest struct {
	ToTurn     *uint32 `json:"to_turn"`               // required
	IfRevision *uint64 `json:"if_revision,omitempty"` // nil means any revision
}

// Rewound is a session after a rewind.
type Rewound struct {
	SessionID  string     `json:"session_id"`
	LastTurn   uint32     `json:"last_turn"`
	Turns      uint32     `json:"turns"`
	Messages   uint64     `json:"messages"`
	Tokens     uint64     `json:"tokens"`
	Revision   uint64     `json:"revision"`
	Superseded Superseded `json:"superseded"`
}

// Superseded counts what a rewind took back.
type Superseded struct {
	Turns    uint64 `json:"turns"`
	Messages uint64 `json:"messages"`
}

// Rewind supersedes all turns of a session after a given one: later windows do not contain them, recall does not find
// them, and no count includes them. They stay stored, and their numbers are not used again. If no turn follows the
// given one, the session does not change. It returns not_found, out_of_range for a turn that the session never had,
// revision_changed, and too_many_rewinds.
func (svc *Service) Rewind(ctx context.Context, c ident.Caller, once ident.Once, projectID, id string,
	req RewindRequest) (Rewound, error) {
	if !ident.ValidID(id) {
		return Rewound{}, noSession(id)
	}
	if req.ToTurn == nil {
		return Rewound{}, fault.InvalidField("to_turn", "required", "must be the last turn that stays; 0 is none")
	}
	unlock, err := svc.Lock(ctx, c.Tenant, projectID, id)
	if err != nil {
		return Rewound{}, err
	}
	defer unlock()
	return records.Update(ctx, svc.db, c, once, func(t *records.Tx) (Rewound, error) {
		p, h, open, err := svc.forAppend(t, c, projectID, id, id == ident.DefaultSession)
		if err != nil {
			return Rewound{}, err
		}
		set, err := svc.projects.SetupOf(p)
		if err == nil {
			err = h.checkRevision(req.IfRevision)
		}
		if err != nil {
			return Rewound{}, err
		}
		taken, err := svc.rewind(t, set, h, open, *req.ToTurn, "to_turn")
		if err == nil && taken.Turns > 0 {
			h.Revision++
			err = svc.putSession(t, p, id, h, open)
		}
		if err != nil {
			return Rewound{}, err
		}
		x := h.Extent()
		return Rewound{SessionID: id, LastTurn: x.LastTurn(), Turns: x.LivingTurns(), Messages: x.LivingMessages(),
			Tokens: h.Tokens[set.Encoding], Revision: h.Revision, Superseded: *taken}, nil
	})
}

// checkRevision returns revision_changed if the session is not at the given revision.
func (h *Head) checkRevision(meant *uint64) error {
	if meant == nil || *meant == h.Revision {
		return nil
	}
	return fault.Errorf(fault.Conflict, "revision_changed",
		"the session is at revision %d, the request is about revision %d; read it again", h.Revision, *meant)
}

// rewind takes back all turns after a given one. It restores the head, the open calls and the summary to their earlier
// state. The caller writes the head.
func (svc *Service) rewind(t *records.Tx, set *project.Setup, h *Head, open *transcript.OpenCalls, turn uint32,
	field string) (*Superseded, error) {
	if turn > h.Turns {
		return nil, fault.InvalidField(field, "out_of_range", "must be from 0 to %d, the session's last turn", h.Turns)
	}
	u, err := svc.Unwind(t.Ctx, t.Tenant, h.Extent(), turn, h.Asked, open)
	if err != nil || u.Living[0] == 0 {
		return new(Superseded), err
	}
	runs := h.Superseded.Add(u.Run)
	if len(runs) > transcript.Max {
		return nil, fault.Errorf(fault.Conflict, "too_many_rewinds",
			"the session's rewinds left %d runs of superseded turns, more than %d are not kept apart: rewind further back, "+
				"or go on in a fork of the session", transcript.Max, transcript.Max)
	}
	h.Superseded, h.Asked = runs, u.Asked
	h.Removed = h.Removed.Before(u.Turns[0])
	h.Lineage = h.Lineage.Branch("rewind", u.Run)
	for i := range h.Tokens {
		h.Tokens[i] -= min(h.Tokens[i], u.Tokens[i])
	}
	return &Superseded{u.Living[0], u.Living[1]}, svc.fallBack(t, set, h)
}
