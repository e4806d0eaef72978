package cache

import (
	"context"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// OpenCalls finds the calls of a view's stored messages, starting at message from, that may still be answered. It also
// returns how many bodies were damaged.
func (svc *Service) OpenCalls(ctx context.Context, v *View, from int) (open *transcript.OpenCalls, damaged int,
	err error) {
	answered := map[uint64]map[uint16]bool{}
	var calls []*Row
	stored := v.Rows[from:]
	for i := range stored {
		r := &stored[i]
		switch {
		case r.Calls > 0:
			calls = append(calls, r)
		case r.Call != r.Seq:
			if answered[r.Call] == nil {
				answered[r.Call] = map[uint16]bool{}
			}
			answered[r.Call][r.CallIndex] = true
		}
	}
	calls = slices.DeleteFunc(calls, func(r *Row) bool { return len(answered[r.Seq]) >= int(r.Calls) })
	if damaged, err = svc.Load(ctx, v, calls); err != nil {
		return nil, damaged, err
	}
	open = &transcript.OpenCalls{More: v.Head.Messages > uint64(len(stored))}
	for _, r := range calls {
		m := r.Message.Load()
		if m == nil {
			open.More = true
			continue
		}
		for i, call := range m.Calls {
			if !answered[r.Seq][uint16(i)] {
				open.Calls = append(open.Calls, transcript.OpenCall{ID: call.ID, Seq: r.Seq, Index: uint16(i),
					Turn: r.Turn, Name: call.Name, Delegation: r.Delegation})
			}
		}
	}
	return open, damaged, nil
}
