package decision

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// OfCall is the part of a decision that is about a proxied model call. It is zero for a window that was requested
// directly.
type OfCall struct {
	Proxied bool   `json:"proxied,omitempty"`
	Stored  *bool  `json:"stored,omitempty"` // whether the call became part of a turn; nil while it is open
	Reason  string `json:"reason,omitempty"` // why it did not
	Call    *Call  `json:"call,omitempty"`
}

// Call is a proxied model call.
type Call struct {
	Mode     string `json:"mode"` // observe, recall, assemble, or bypass if no window could be made
	Model    string `json:"model,omitempty"`
	Upstream string `json:"upstream,omitempty"` // the name of the provider's API in the project's settings
	Matched  string `json:"matched,omitempty"`  // how the request relates to the stored history
	Front    int    `json:"front,omitempty"`    // number of the client's own messages before those that are stored
	// Differs counts how the request differs from the stored history; nil if it extends it.
	Differs  *Differences `json:"differs,omitempty"`
	Status   int          `json:"status,omitempty"`   // of the provider's answer
	Retried  string       `json:"retried,omitempty"`  // why the provider was asked a second time
	Bypassed string       `json:"bypassed,omitempty"` // why no window could be made
	// DropsBlocks means that the provider was told to drop thinking blocks that are bound to another prompt.
	DropsBlocks bool   `json:"drops_blocks,omitempty"`
	Turn        uint32 `json:"turn,omitempty"`   // the turn that the call became part of; 0 if none yet
	Rounds      int    `json:"rounds,omitempty"` // the number of answers, if memory tools needed more than one
	Counted     uint64 `json:"counted_tokens,omitempty"`
	Usage       *Spent `json:"usage,omitempty"` // nil: the provider told none
}

// Differences counts messages by how a request differs from the stored history.
type Differences struct {
	Edited  int `json:"edited"`  // have other texts
	Removed int `json:"removed"` // are left out, and taken for deleted
	Cut     int `json:"cut"`     // are left out, and taken for trimmed
	Own     int `json:"own"`     // are the client's own text and not part of the conversation
	Older   int `json:"older"`   // were trimmed, and are put in front of the request again
}

// Spent has a provider's counts, in its own tokens. Input is the whole prompt, including cached tokens.
type Spent struct {
	Input   int64 `json:"input_tokens"`
	Cached  int64 `json:"cached_tokens"`
	Written int64 `json:"cache_write_tokens"`
	Output  int64 `json:"output_tokens"`
}

// KeepPassed stores a decision about a call that was forwarded unchanged, or only its row if kept is false.
func (svc *Service) KeepPassed(ctx context.Context, tenant string, pinc ident.Incarnation, id ID, r Record, seen Seen,
	kept bool) error {
	r.Steps = []Step{}
	if !kept {
		b, err := rowAlone(pinc, id, r.row(seen))
		if err != nil {
			return err
		}
		return svc.db.Commit(ctx, tenant, b)
	}
	b, err := r.encode()
	if err != nil {
		return err
	}
	row, err := r.row(seen).encode()
	if err != nil {
		return err
	}
	key := id.key(pinc)
	return svc.db.Commit(ctx, tenant, store.Batch{Expect: []store.Expect{{Key: key}},
		Put: []store.Pair{{Key: key, Value: b}, {Key: id.rowKey(pinc), Value: row}}})
}

// Passed reports whether the decision is about a call that was forwarded unchanged.
func (r *Record) Passed() bool { return r.Window == "" }

// Finish records how the call of a decision ended. It does nothing if the decision has been purged.
func (svc *Service) Finish(ctx context.Context, tenant string, pinc ident.Incarnation, id ID, end OfCall) error {
	key := id.rowKey(pinc)
	it, err := svc.db.ReadItem(ctx, tenant, key)
	if err != nil || it.Value == nil {
		return err
	}
	row, err := decodeRow(it.Value)
	if err != nil {
		return fmt.Errorf("%w: a decision's row", records.ErrDamaged)
	}
	row.OfCall = end
	b, err := row.encode()
	if err != nil {
		return err
	}
	err = svc.db.Commit(ctx, tenant, store.Batch{Expect: []store.Expect{{Key: key, Value: it.Value}},
		Put: []store.Pair{{Key: key, Value: b}}})
	if _, lost := errors.AsType[*store.ConflictError](err); lost { // it was purged in the meantime
		return nil
	}
	return err
}

// Show returns a decision and its call. It returns the errors of Read, except that a call that was forwarded unchanged
// is no error; its decision has no Shared.
func (svc *Service) Show(ctx context.Context, c ident.Caller, projectID, name string) (*Decision, *OfCall, error) {
	d, err := svc.find(ctx, c, projectID, name)
	if err != nil {
		return nil, nil, err
	}
	if !d.Passed() {
		if err := svc.readEffective(ctx, c.Tenant, d); err != nil {
			return nil, nil, err
		}
	}
	id, _ := parseID(name)
	it, err := svc.db.ReadItem(ctx, c.Tenant, id.rowKey(d.Project.Incarnation))
	row := new(Row)
	if err == nil && it.Value != nil {
		if row, err = decodeRow(it.Value); err != nil {
			err = fmt.Errorf("%w: a decision's row", records.ErrDamaged)
		}
	}
	return d, &row.OfCall, err
}

// errPassed returns no_window, for a decision about a call that was forwarded unchanged.
func errPassed() error {
	return fault.Errorf(fault.Gone, "no_window",
		"the call was sent on as it came, so there is no window to make again")
}
