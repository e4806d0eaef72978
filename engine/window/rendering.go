package window

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
)

// markdownOf renders a result, and its call's input with the edit, as markdown. It returns nil if either body is
// damaged.
func (a *assembly) markdownOf(r *cache.Row, e *plan.Edit) *chat.Message {
	call := a.rowOf(r.Call)
	m := r.Message.Load()
	if call == nil || m == nil || call.Message.Load() == nil {
		return nil
	}
	calls := call.Message.Load().Calls
	if int(r.CallIndex) >= len(calls) {
		return nil
	}
	called := calls[r.CallIndex]
	if changed, is := e.ArgumentsOf(int(r.CallIndex)); is {
		called.Arguments = changed
	}
	out := m.Markdown(called)
	return &out
}

// render appends the window in the requested format to dst.
func (a *assembly) render(dst []byte) ([]byte, error) {
	if err := a.fetchFor(a.result.items); err != nil {
		return dst, err
	}
	w, err := a.build(dst)
	if err != nil {
		return dst, err
	}
	a.result.hash = w.Name(a.sums)
	a.result.rendered = uint64(w.Rendered)
	if a.format == chat.Text {
		return rawjson.AppendString(append(dst, `[],"text":`...), string(w.Text)), nil
	}
	a.rendered = rendered{messages: w.Messages, audio: slices.ContainsFunc(a.result.items, func(it plan.Item) bool {
		return it.Flags&plan.FlagAudio != 0
	})}
	dst = w.Buf
	if w.System != "" {
		dst = append(dst, `,"system":`...)
		start := len(dst)
		dst = a.builder.AppendSystem(dst, &w)
		a.rendered.system = dst[start:]
	}
	return dst, nil
}

// build appends the window to dst. It repeats this until no further edits are needed.
func (a *assembly) build(dst []byte) (w chat.Window, err error) {
	about := 0
	for i := range a.result.items {
		const around = 96 // approximate bytes of a message besides its text
		text := int(a.result.items[i].TextBytes)
		about += around + text + text/8
	}
	dst = slices.Grow(dst, about)
	a.builder.Edits = render.Edits{}
	a.beginSheet()
	for again := true; again; again = a.sheet.Amend(&a.builder, &w) {
		if w, err = a.buildOnce(dst); err != nil {
			return w, err
		}
	}
	a.sums = a.builder.Edits.Append(a.sums)
	a.settlePrompt(&w)
	return w, nil
}

// buildOnce appends the window with the edits so far.
func (a *assembly) buildOnce(dst []byte) (w chat.Window, err error) {
	b := &a.builder
	if a.format == chat.Text { // a format without messages
		b.Reset(a.format, nil, a.system)
	} else {
		b.Reset(a.format, dst, a.system)
	}
	a.sums = append(a.sums[:0], byte(a.format))
	a.places = a.places[:0]
	for i := range a.result.items {
		it := &a.result.items[i]
		if it.Change == plan.Notice {
			shown := reminder.Message{Text: it.Text, AsSystem: a.asSystem(it)}
			shown.Add(b, a.format)
			a.places = append(a.places, shown.Place)
			a.sums = shown.AppendSum(a.sums)
			continue
		}
		if shown := a.memories.Of(it); shown != nil {
			shown.AddWithNext(b, a.format)
			a.sums = shown.AppendSum(a.sums)
		}
		fr, err := a.fragment(it)
		if err != nil {
			return w, err
		}
		b.Reasoning = a.ShowsReasoning(it.Role, it.Flags)
		b.Add(&fr.Fragment, a.rows[it.Row].Call)
		a.places = append(a.places, int32(b.Place()))
		a.sums = append(append(a.sums, 'm'), fr.Hash[:]...)
	}
	return b.Finish(), nil
}

// fetchFor loads, in one round trip, the bodies that the window needs and that are not cached as rendered.
func (a *assembly) fetchFor(items []plan.Item) error {
	var need []*cache.Row
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
		need = append(need, r)
		if r.Call != r.Seq {
			need = append(need, a.rowOf(r.Call))
		}
	}
	return a.load(need)
}

// cached returns the cache entry of an item's rendering, or nil if only this window can use the rendering.
func (a *assembly) cached(it *plan.Item) *cache.Fragment {
	r := a.rows[it.Row]
	switch {
	case it.Change == plan.Compressed && it.Text == "" && len(it.Rows) == 1:
		return &r.Fragments[a.format-1][2]
	case it.Change == plan.Compressed:
		if q := r.Question.Load(); q != nil && len(it.Rows) == 1 && strings.TrimPrefix(it.Text, plan.EarlierQuestion(it.Turn)) == q.Text {
			return &q.Fragments[a.format-1]
		}
		return nil
	case it.Change == plan.Retexted:
		if c := r.Cut.Load(); c != nil && c.Text == it.Text && it.Edit.CutsOnly(c.Documents) && c.Markdown == a.markdown {
			return &c.Fragments[a.format-1]
		}
		return nil
	case it.Edit != nil:
		return nil
	case it.Change != plan.Unchanged:
		return nil
	case a.markdown && r.Role == plan.RoleTool:
		return &r.Fragments[a.format-1][1]
	}
	return &r.Fragments[a.format-1][0]
}

// fragment renders one item, or returns its cached rendering.
func (a *assembly) fragment(it *plan.Item) (*cache.Rendered, error) {
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
	opts := chat.Options{Turn: it.Turn, Tool: r.Tool}
	if a.format == chat.OpenAIResponses && it.Role == plan.RoleTool {
		if opts.Call, err = a.callType(it, r); err != nil {
			return nil, err
		}
	}
	fr := &cache.Rendered{Fragment: chat.Render(a.format, m, opts)}
	fr.Hash = fr.Sum()
	if slot != nil {
		slot.Store(fr)
	}
	return fr, nil
}

// callType returns the type of the Responses item that a result answers, or "" if the call is unknown.
func (a *assembly) callType(it *plan.Item, r *cache.Row) (string, error) {
	call, index := a.rowOf(r.Call), r.CallIndex
	if it.Change == plan.Answer {
		index = it.Call
	}
	if call == nil || call.Damaged.Load() {
		return "", nil
	}
	m, err := a.body(call)
	if err != nil || int(index) >= len(m.Calls) {
		return "", err
	}
	return cmp.Or(m.Calls[index].Type, chat.ItemCall), nil
}

// shown returns the message that an item shows.
func (a *assembly) shown(it *plan.Item, r *cache.Row) (*chat.Message, error) {
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
			return nil, errReread // the damage was unknown when the table was made
		}
		return a.standIn(it, r)
	}
	m, err := a.body(r)
	if err != nil {
		return nil, err
	}
	if it.Change == plan.Retexted {
		out := m.Edited(it.Edit)
		out = out.WithText(it.Text)
		return &out, nil
	}
	if a.markdown && r.Role == plan.RoleTool {
		if _, err := a.body(a.rowOf(r.Call)); err != nil {
			return nil, err
		}
		if out := a.markdownOf(r, it.Edit); out != nil {
			m = out
		}
	}
	if it.Edit != nil {
		out := m.Edited(it.Edit)
		m = &out
	}
	return m, nil
}

// standIn returns a replacement for a message whose body is damaged, made from its header and its call.
func (a *assembly) standIn(it *plan.Item, r *cache.Row) (*chat.Message, error) {
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
