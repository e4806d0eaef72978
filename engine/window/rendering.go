package window

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/view"
)

// markdownOf renders a result and its call's input as markdown, or nil where either body is damaged.
func (a *assembly) markdownOf(r *view.Row) *chat.Message {
	call := a.rowOf(r.Call)
	m := r.Message.Load()
	if call == nil || m == nil || call.Message.Load() == nil {
		return nil
	}
	calls := call.Message.Load().Calls
	if int(r.CallIndex) >= len(calls) {
		return nil
	}
	out := m.Markdown(calls[r.CallIndex])
	return &out
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// render appends the decided window in the format asked for, behind what make has appended. It identifies the window by
// the SHA-256 of its parts' sums, which are remembered, and a CRC-32C over its bytes, which shows a change in how parts
// are joined.
func (a *assembly) render(dst []byte) ([]byte, error) {
	items := a.result.items
	if err := a.fetchFor(items); err != nil {
		return dst, err
	}
	var b chat.Builder
	if a.format == chat.Text { // which has no messages
		b.Reset(a.format, nil, a.request.System)
	} else {
		b.Reset(a.format, dst, a.request.System)
	}
	a.sums = append(a.sums[:0], byte(a.format))
	for i := range items {
		it := &items[i]
		if it.Change == plan.Notice {
			b.Notice(it.Text)
			sum := sha256.Sum256([]byte(it.Text))
			a.sums = append(append(a.sums, 'n'), sum[:]...)
			continue
		}
		fr, err := a.fragment(it)
		if err != nil {
			return dst, err
		}
		b.Add(&fr.Fragment, a.rows[it.Row].Call)
		a.sums = append(append(a.sums, 'm'), fr.Hash[:]...)
	}
	w := b.Finish()
	sum := sha256.Sum256(a.sums)
	crc := crc32.Update(0, castagnoli, w.Messages)
	crc = crc32.Update(crc32.Update(crc, castagnoli, w.Text), castagnoli, []byte(w.System))
	a.result.hash = hex.EncodeToString(binary.BigEndian.AppendUint32(sum[:], crc))
	a.result.rendered = uint64(w.Rendered)
	if a.format == chat.Text {
		return chat.AppendString(append(dst, `[],"text":`...), string(w.Text)), nil
	}
	if dst = w.Buf; w.System != "" {
		dst = chat.AppendString(append(dst, `,"system":`...), w.System)
	}
	return dst, nil
}

// fetchFor loads in one go the bodies that a window needs and does not find rendered.
func (a *assembly) fetchFor(items []plan.Item) error {
	var need []*view.Row
	for i := range items {
		it := &items[i]
		if it.Change == plan.Notice {
			continue
		}
		if slot := a.cached(it); slot != nil && slot.Load() != nil {
			continue
		}
		if it.Change == plan.Compressed {
			if it.Text == "" {
				for _, at := range it.Rows {
					need = append(need, a.rows[at])
				}
			}
			continue
		}
		r := a.rows[it.Row]
		if need = append(need, r); r.Call != r.Seq {
			need = append(need, a.rowOf(r.Call))
		}
	}
	return a.load(need)
}

// cached is where an item's rendering is remembered, or nil where it is this window's alone.
func (a *assembly) cached(it *plan.Item) *view.Fragment {
	r := a.rows[it.Row]
	switch {
	case it.Change == plan.Compressed && it.Text == "" && len(it.Rows) == 1:
		return &r.Fragments[a.format-1][2]
	case it.Change != plan.Unchanged:
		return nil
	case a.markdown && r.Role == plan.RoleTool:
		return &r.Fragments[a.format-1][1]
	}
	return &r.Fragments[a.format-1][0]
}

// fragment renders one item, or finds it rendered.
func (a *assembly) fragment(it *plan.Item) (*view.Rendered, error) {
	slot := a.cached(it)
	if slot != nil {
		if fr := slot.Load(); fr != nil {
			return fr, nil
		}
	}
	r := a.rows[it.Row]
	m, err := a.shown(it, r)
	if err != nil {
		return nil, err
	}
	fr := &view.Rendered{Fragment: chat.Render(a.format, m, chat.Options{Turn: it.Turn, Tool: r.Tool})}
	fr.Hash = fr.Sum()
	if slot != nil {
		slot.Store(fr)
	}
	return fr, nil
}

// shown is the message that an item shows.
func (a *assembly) shown(it *plan.Item, r *view.Row) (*chat.Message, error) {
	if it.Change == plan.Compressed {
		text, err := plan.TextOf(it, a)
		q := chat.Question(text)
		return &q, err
	}
	if it.Change == plan.Answer {
		m, err := a.body(r)
		if err != nil {
			return nil, err
		}
		answer := m.Unanswered(m.Calls[it.Call])
		out := answer.WithText(it.Text)
		return &out, nil
	}
	if r.Damaged.Load() {
		if it.Change == plan.Unchanged {
			return nil, errReread // found out after the table was made
		}
		return a.standIn(it, r)
	}
	m, err := a.body(r)
	if err != nil {
		return nil, err
	}
	if it.Change == plan.Retexted {
		out := m.WithText(it.Text)
		return &out, nil
	}
	if a.markdown && r.Role == plan.RoleTool {
		if _, err := a.body(a.rowOf(r.Call)); err != nil {
			return nil, err
		}
		if out := a.markdownOf(r); out != nil {
			return out, nil
		}
	}
	return m, nil
}

// standIn is the message in place of one whose body is damaged: its header and its call tell what it was.
func (a *assembly) standIn(it *plan.Item, r *view.Row) (*chat.Message, error) {
	callID := ""
	if r.Role == plan.RoleTool {
		call, err := a.body(a.rowOf(r.Call))
		if err != nil {
			return nil, err
		}
		if int(r.CallIndex) >= len(call.Calls) {
			return nil, records.ErrDamaged
		}
		callID = call.Calls[r.CallIndex].ID
	}
	m := chat.Unreadable(r.Role, plan.KindChat, nil, callID)
	out := m.WithText(it.Text)
	return &out, nil
}
