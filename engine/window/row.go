package window

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// row is one stored message as assembling sees it: its header, its names as numbers, and what was made of its body.
type row struct {
	session.Header
	agentID, delegationID, toolID uint32 // in view.names
	tagIDs                        []uint32
	*content
}

// content is what was made of a message's body so far. Its parts are immutable once set.
type content struct {
	message   atomic.Pointer[chat.Message]
	fragments [4][3]fragmentSlot // by format: as posted, as markdown, as an earlier question
	// markdown counts the tokens as markdown, as a message and as flat text, by encoding, plus one; 0: not counted yet.
	markdown      [2][2]atomic.Uint32
	markdownBytes atomic.Uint32 // known where its tokens are
	damaged       atomic.Bool   // the body cannot be read
}

// rendered is a fragment with its sum, which windows' hashes are made of.
type rendered struct {
	chat.Fragment
	sum [32]byte
}

type fragmentSlot = atomic.Pointer[rendered]

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
	for part := range slices.Chunk(need, records.MaxOfOneRead) {
		if err := a.fetch(part); err != nil {
			return err
		}
	}
	if a.hot != nil {
		a.svc.hot.account(a.hot, a.view.weigh())
	}
	return nil
}

// fetch reads the bodies of rows in one round trip.
func (a *assembly) fetch(rows []*row) error {
	keys := make([][]byte, len(rows))
	for i, r := range rows {
		keys[i] = records.Body.Key(a.extent.Incarnation, r.Seq)
	}
	got, err := a.svc.db.Store.Read(a.ctx, a.tenant, store.Query{Keys: keys})
	if err != nil {
		return err
	}
	for i, r := range rows {
		h, m, err := session.ParseBody(got.Keys[i].Value)
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
