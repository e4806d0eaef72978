package window

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// load fetches the bodies of rows that are not in memory. One that cannot be read is marked damaged.
func (a *assembly) load(rows []*row) error {
	var need []*row
	for _, r := range rows {
		if r != nil && r.message.Load() == nil && !r.damaged.Load() && !r.Lost() {
			need = append(need, r)
		}
	}
	if len(need) == 0 {
		return nil
	}
	// A call is asked for once more with each of its results.
	slices.SortFunc(need, func(x, y *row) int { return cmp.Compare(x.Seq, y.Seq) })
	need = slices.Compact(need)
	for part := need; len(part) > 0; {
		n := min(len(part), records.MaxOfOneRead)
		if err := a.fetch(part[:n]); err != nil {
			return err
		}
		part = part[n:]
	}
	if a.hot != nil {
		a.e.hot.account(a.hot, a.view.weigh())
	}
	return nil
}

func (a *assembly) fetch(rows []*row) error {
	keys := make([][]byte, len(rows))
	for i, r := range rows {
		keys[i] = records.Body.Key(a.extent.Incarnation, r.Seq)
	}
	got, err := a.e.db.Store.Read(a.ctx, a.tenant, store.Query{Keys: keys})
	if err != nil {
		return err
	}
	for i, r := range rows {
		h, m, err := transcript.ParseBody(got.Keys[i].Value)
		if err != nil || h.Seq != r.Seq {
			r.damaged.Store(true)
			a.damage++
			continue
		}
		r.message.Store(m)
	}
	return nil
}

// body gives a row's message, fetching it where it is not in memory.
func (a *assembly) body(r *row) (*chat.Message, error) {
	if r.message.Load() == nil {
		if err := a.load([]*row{r}); err != nil {
			return nil, err
		}
	}
	if m := r.message.Load(); m != nil {
		return m, nil
	}
	return nil, errReread
}

// gone tells whether what looks like damage is a session that was deleted meanwhile. Where it is not, the damage is
// reported to the operator.
func (a *assembly) gone(key []byte) (bool, error) {
	r, err := a.e.db.Store.Read(a.ctx, a.tenant, store.Query{Keys: [][]byte{key}})
	if err != nil {
		return false, err
	}
	h := new(session.Head)
	if r.Keys[0].Value != nil && json.Unmarshal(r.Keys[0].Value, h) == nil && h.Incarnation == a.extent.Incarnation {
		a.e.db.Log.Error("stored messages are damaged or missing; the window shows placeholders",
			"tenant", a.tenant, "session", a.extent.Incarnation.String(), "messages", a.damage)
		return false, nil
	}
	return true, nil
}
