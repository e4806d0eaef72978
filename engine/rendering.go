package engine

import (
	"sync/atomic"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// maxOfOneRead bounds the bodies fetched in one round trip.
const maxOfOneRead = 512

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// tokensOf counts a stored message in the rendering asked for, from its header.
func (a *assembly) tokensOf(r *row) uint32 {
	if a.markdown && r.role == plan.RoleTool {
		return max(1, a.countedMarkdown(r).Load()) - 1
	}
	if a.format == chat.Text {
		return a.e.lineTokens(&r.header, a.encoding)
	}
	n := r.tokens[a.encoding]
	if a.format == chat.AnthropicMessages && r.flags&flagEmpty != 0 {
		n += uint32(chat.PlaceholderTokens(a.count))
	}
	return n
}

// countedMarkdown is where a result's token count as markdown is remembered.
func (a *assembly) countedMarkdown(r *row) *atomic.Uint32 {
	if a.format == chat.Text {
		return &r.content.markdown[1][a.encoding]
	}
	return &r.content.markdown[0][a.encoding]
}

// compressedTokens counts a user's message as an earlier question in the rendering asked for.
func (a *assembly) compressedTokens(r *row) uint32 {
	if a.format != chat.Text {
		return r.compressed[a.encoding]
	}
	return uint32(a.count(plan.EarlierQuestion(r.turn))) + r.header.content[a.encoding] + 1
}

// messageTokens counts a message that is nothing but a text, in the rendering asked for.
func (a *assembly) messageTokens(role plan.Role, text string) uint32 {
	if a.format == chat.Text {
		return uint32(a.count(text)) + 1
	}
	m := chat.Message{Role: role, Text: text}
	n := m.Tokens(a.count)
	if a.format == chat.AnthropicMessages && m.Empty() {
		n += chat.PlaceholderTokens(a.count)
	}
	return uint32(n)
}

// countMarkdown counts the considered tool results as markdown, which takes their bodies; once for a session in memory.
func (a *assembly) countMarkdown() error {
	var need []*row
	for _, r := range a.rows {
		if r.role == plan.RoleTool && a.countedMarkdown(r).Load() == 0 && a.repair(r) == nil {
			need = append(need, r, a.rowOf(r.call))
		}
	}
	if err := a.load(need); err != nil {
		return err
	}
	for i := 0; i < len(need); i += 2 {
		m := a.markdownOf(need[i])
		if m == nil {
			continue // damaged: its tokens are those of what replaces it
		}
		a.countedMarkdown(need[i]).Store(1 + a.tokensOfMarkdown(m))
	}
	return nil
}

func (a *assembly) tokensOfMarkdown(m *chat.Message) uint32 {
	if a.format == chat.Text {
		return uint32(a.count(m.Text)) + 1
	}
	return uint32(m.Tokens(a.count))
}

// markdownOf renders a result and its call's input as markdown, or nil where either body is damaged.
func (a *assembly) markdownOf(r *row) *chat.Message {
	call := a.rowOf(r.call)
	m := r.message.Load()
	if call == nil || m == nil || call.message.Load() == nil {
		return nil
	}
	calls := call.message.Load().Calls
	if int(r.callIndex) >= len(calls) {
		return nil
	}
	out := m.Markdown(calls[r.callIndex])
	return &out
}

// load fetches the bodies of rows that are not in memory. One that cannot be read is marked damaged.
func (a *assembly) load(rows []*row) error {
	var need []*row
	for _, r := range rows {
		if r != nil && r.message.Load() == nil && !r.damaged.Load() && !r.lost() {
			need = append(need, r)
		}
	}
	if len(need) == 0 {
		return nil
	}
	for part := need; len(part) > 0; {
		n := min(len(part), maxOfOneRead)
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
	var keys [][]byte
	for _, r := range rows {
		for part := range bodyParts(r.bodyBytes) {
			keys = append(keys, bodyKey(a.extent.incarnation, r.seq, uint16(part)))
		}
	}
	got, err := a.e.store.Read(a.ctx, a.tenant, store.Query{Keys: keys})
	if err != nil {
		return err
	}
	items := got.Keys
	for _, r := range rows {
		n := bodyParts(r.bodyBytes)
		h, m, err := parseBody(joinBody(items[:n]))
		if items = items[n:]; err != nil || h.seq != r.seq {
			a.e.log.Error("a message body is damaged or missing; windows show a placeholder",
				"tenant", a.tenant, "session", a.extent.incarnation.String(), "seq", r.seq)
			r.damaged.Store(true)
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

// The methods that make an assembly a plan.Source.

// RowText is the text of a considered row, as stored or, where markdown was asked for, as it is shown.
func (a *assembly) RowText(at int32) (string, error) {
	r := a.rows[at]
	m, err := a.body(r)
	if err != nil {
		return "", err
	}
	if a.markdown && r.role == plan.RoleTool {
		if _, err := a.body(a.rowOf(r.call)); err != nil {
			return "", err
		}
		if shown := a.markdownOf(r); shown != nil {
			return shown.Text, nil
		}
	}
	return m.Text, nil
}

// Tool names the tool that an item answers for.
func (a *assembly) Tool(it *plan.Item) string { return a.rows[it.Row].tool }

// TokensWith counts an item as if it had another text.
func (a *assembly) TokensWith(it *plan.Item, text string) (uint32, error) {
	switch {
	case it.Change == plan.Notice:
		return a.NoticeTokens(text), nil
	case it.Change == plan.Compressed:
		return a.UserTokens(text), nil
	case a.format == chat.Text:
		r := a.rows[it.Row]
		return uint32(a.count(chat.Speaker(it.Role, it.Turn, r.tool)) + a.count(text) + 1), nil
	case it.Change == plan.Answer || a.rows[it.Row].damaged.Load():
		return a.messageTokens(it.Role, text), nil
	}
	m, err := a.body(a.rows[it.Row])
	if err != nil {
		return 0, err
	}
	changed := m.WithText(text)
	n := changed.Tokens(a.count)
	if a.format == chat.AnthropicMessages && changed.Empty() {
		n += chat.PlaceholderTokens(a.count)
	}
	return uint32(n), nil
}

// NoticeTokens counts a system-class message.
func (a *assembly) NoticeTokens(text string) uint32 {
	if a.format == chat.Text {
		return uint32(a.count(text)) + 1
	}
	return uint32(chat.NoticeTokens(text, a.count))
}

// UserTokens counts a user message that is nothing but a text.
func (a *assembly) UserTokens(text string) uint32 { return a.messageTokens(plan.RoleUser, text) }

// Truncate cuts a text to at most that many tokens.
func (a *assembly) Truncate(text string, tokens int) string {
	return chat.Truncate(text, tokens, a.count)
}

// render appends the decided window in the format asked for.
func (a *assembly) render(dst []byte) (chat.Window, error) {
	items := a.result.items
	if err := a.fetchFor(items); err != nil {
		return chat.Window{}, err
	}
	var b chat.Builder
	b.Reset(a.format, dst, a.request.System)
	for i := range items {
		it := &items[i]
		if it.Change == plan.Notice {
			b.Notice(it.Text)
			continue
		}
		fr, err := a.fragment(it)
		if err != nil {
			return chat.Window{}, err
		}
		b.Add(fr, a.rows[it.Row].call)
	}
	return b.Finish(), nil
}

// fetchFor loads in one go the bodies that a window needs and does not find rendered.
func (a *assembly) fetchFor(items []plan.Item) error {
	var need []*row
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
		if need = append(need, r); r.call != r.seq {
			need = append(need, a.rowOf(r.call))
		}
	}
	return a.load(need)
}

// cached is where an item's rendering is remembered, or nil where it is this window's alone.
func (a *assembly) cached(it *plan.Item) *fragmentSlot {
	r := a.rows[it.Row]
	switch {
	case it.Change == plan.Compressed && it.Text == "" && len(it.Rows) == 1:
		return &r.fragments[a.format-1][2]
	case it.Change != plan.Unchanged:
		return nil
	case a.markdown && r.role == plan.RoleTool:
		return &r.fragments[a.format-1][1]
	}
	return &r.fragments[a.format-1][0]
}

// fragment renders one item, or finds it rendered.
func (a *assembly) fragment(it *plan.Item) (*chat.Fragment, error) {
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
	fr := chat.Render(a.format, m, chat.Options{Turn: it.Turn, Tool: r.tool})
	if slot != nil {
		slot.Store(&fr)
	}
	return &fr, nil
}

// shown is the message that an item shows.
func (a *assembly) shown(it *plan.Item, r *row) (*chat.Message, error) {
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
	if r.damaged.Load() {
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
	if a.markdown && r.role == plan.RoleTool {
		if _, err := a.body(a.rowOf(r.call)); err != nil {
			return nil, err
		}
		if out := a.markdownOf(r); out != nil {
			return out, nil
		}
	}
	return m, nil
}

// standIn is the message in place of one whose body is damaged: its header and its call tell what it was.
func (a *assembly) standIn(it *plan.Item, r *row) (*chat.Message, error) {
	callID := ""
	if r.role == plan.RoleTool {
		call, err := a.body(a.rowOf(r.call))
		if err != nil {
			return nil, err
		}
		if int(r.callIndex) >= len(call.Calls) {
			return nil, errDamaged
		}
		callID = call.Calls[r.callIndex].ID
	}
	m := chat.Unreadable(r.role, plan.KindChat, nil, callID)
	out := m.WithText(it.Text)
	return &out, nil
}
