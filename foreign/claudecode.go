package foreign

import (
	"cmp"
	"encoding/json"
	"errors"
	"hash/fnv"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// claudeRun is what the files of one run share: forked sessions repeat the rows of others, and the metadata of a
// sub-agent is in a file of its own.
type claudeRun struct {
	seen     map[uint64]claudeRow // by the hash of the row's id
	sessions []string             // ids of sessions, by number
	agents   map[string]object    // the content of agent-ID.meta.json, by its path without .meta.json
}

// claudeRow is a row that was read before: in which session, and whether a message was made of it.
type claudeRow struct {
	session int32
	kept    bool
}

// companions takes the files that describe sub-agents out of the list of those to recognise.
func (c *claudeRun) companions(leaves []*leaf) {
	c.seen, c.agents = map[uint64]claudeRow{}, map[string]object{}
	for _, l := range leaves {
		name, ok := strings.CutSuffix(l.Name, ".meta.json")
		if !ok || l.format != "" || l.Size > 1<<20 {
			continue
		}
		if raw, err := l.all(); err == nil {
			if o := parseObject(raw); o.has("agentType") {
				c.agents[name], l.problem = o, ""
				l.format = claudeCode + " sub-agent"
			}
		}
	}
}

// ccRow is a row of a file, without its content.
type ccRow struct {
	off             int64
	size            int32
	id, parent      uint64 // hashes
	message         uint64 // hash of the id of an assistant's message; 0 for a user's row
	calls, results  []uint64
	reason          string // why it is left out; "" for a message
	leap            bool   // parent is the logical one, over a compaction
	user, sidechain bool
	agent           string // of a sub-agent
	session         string
}

// ccLine is what is decoded of every row.
type ccLine struct {
	Type        string          `json:"type"`
	UUID        string          `json:"uuid"`
	Parent      *string         `json:"parentUuid"`
	Logical     *string         `json:"logicalParentUuid"`
	Session     string          `json:"sessionId"`
	Subtype     string          `json:"subtype"`
	Sidechain   bool            `json:"isSidechain"`
	Meta        bool            `json:"isMeta"`
	Compact     bool            `json:"isCompactSummary"`
	APIError    bool            `json:"isApiErrorMessage"`
	Agent       string          `json:"agentId"`
	Timestamp   string          `json:"timestamp"`
	CWD         string          `json:"cwd"`
	Version     string          `json:"version"`
	Branch      string          `json:"gitBranch"`
	CustomTitle string          `json:"customTitle"`
	AITitle     string          `json:"aiTitle"`
	Summary     string          `json:"summary"`
	Origin      json.RawMessage `json:"origin"`
	Message     struct {
		ID      string          `json:"id"`
		Role    string          `json:"role"`
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

// ccBlock is what is decoded of every block of a message.
type ccBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	ToolUseID string          `json:"tool_use_id"`
	Signature *string         `json:"signature"`
	Content   json.RawMessage `json:"content"`
}

func hashOf(s string) uint64 {
	if s == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return h.Sum64()
}

// ccFile is a file of Claude Code that is being read: its rows in order, and what names the session.
type ccFile struct {
	src    *source
	rows   []ccRow
	byID   map[uint64]int32
	about  map[string]string
	titles [3]string // custom, by the model, summary
	names  map[string]string
	now    int32 // number of the session
}

// readClaudeCode reads a file of rows. It goes through the file twice: rows form a tree of which only one path is the
// conversation.
func readClaudeCode(src *source) error {
	if src.format != claudeCode {
		return nil
	}
	f := &ccFile{src: src, byID: map[uint64]int32{}, about: map[string]string{}, names: map[string]string{}}
	if err := src.each(f.index); err != nil {
		return err
	}
	var groups []string // of sub-agents; "" is the main agent
	for i := range f.rows {
		if r := &f.rows[i]; !slices.Contains(groups, r.agent) && r.reason == "" {
			groups = append(groups, r.agent)
		}
	}
	slices.SortStableFunc(groups, func(a, b string) int { return cmp.Compare(min(len(a), 1), min(len(b), 1)) })
	for _, agent := range groups {
		if err := f.readPath(agent); err != nil {
			return err
		}
	}
	f.finish()
	return nil
}

// index notes a row.
func (f *ccFile) index(v *value) error {
	if f.src.bad(v) {
		return nil
	}
	var l ccLine
	if json.Unmarshal(v.raw, &l) != nil {
		f.src.report.unknown("a row with fields of other types")
		return nil
	}
	f.name(&l)
	if l.UUID == "" {
		f.src.report.left(Telemetry, 1)
		return nil
	}
	r := ccRow{off: v.off, size: int32(len(v.raw)), id: hashOf(l.UUID), reason: l.reason(), user: l.Type == "user",
		sidechain: l.Sidechain, session: f.intern(l.Session)}
	if l.Parent != nil {
		r.parent = hashOf(*l.Parent)
	} else if l.Logical != nil {
		r.parent, r.leap = hashOf(*l.Logical), true
	}
	if l.Sidechain {
		r.agent = f.intern(f.subAgent(&l, r.parent))
	}
	if l.Type == "assistant" {
		r.message = cmp.Or(hashOf(l.Message.ID), r.id)
	}
	var blocks []ccBlock
	_ = json.Unmarshal(l.Message.Content, &blocks)
	for _, b := range blocks {
		switch b.Type {
		case "tool_use":
			r.calls = append(r.calls, hashOf(b.ID))
		case "tool_result":
			r.results = append(r.results, hashOf(b.ToolUseID))
		}
	}
	if _, twice := f.byID[r.id]; twice {
		f.src.report.left(Duplicate, 1)
		return nil
	}
	f.byID[r.id] = int32(len(f.rows))
	f.rows = append(f.rows, r)
	return nil
}

// intern returns a string of which rows have many copies.
func (f *ccFile) intern(s string) string {
	if _, ok := f.names[s]; !ok {
		f.names[s] = s
	}
	return f.names[s]
}

// subAgent returns the id of the sub-agent that a row belongs to. Older rows do not say it: then it is that of their
// parent, or the id of the first row.
func (f *ccFile) subAgent(l *ccLine, parent uint64) string {
	if l.Agent != "" {
		return l.Agent
	}
	if i, ok := f.byID[parent]; ok && f.rows[i].agent != "" {
		return f.rows[i].agent
	}
	return cutText(l.UUID, 8)
}

// name notes what the rows say about their session.
func (f *ccFile) name(l *ccLine) {
	for i, title := range [...]string{l.CustomTitle, l.AITitle, l.Summary} {
		if title != "" {
			f.titles[i] = title
		}
	}
	for _, of := range [...][2]string{{"cwd", l.CWD}, {"git_branch", l.Branch}, {"version", l.Version}} {
		if f.about[of[0]] == "" && of[1] != "" {
			f.about[of[0]] = of[1]
		}
	}
	if m := l.Message.Model; f.about["model"] == "" && m != "<synthetic>" && l.Type == "assistant" && !l.APIError {
		f.about["model"] = m
	}
}

// localCommands begin the text of rows that a typed command made.
var localCommands = []string{"<command-name>", "<command-message>", "<local-command-stdout>", "<local-command-stderr>",
	"<local-command-caveat>", "<bash-input>", "<bash-stdout>", "<bash-stderr>"}

// reason returns why a row is no message; "" for a message.
func (l *ccLine) reason() string {
	switch {
	case l.Type == "attachment":
		return HarnessPrompt
	case l.Type == "system" && l.Subtype == "compact_boundary", l.Compact:
		return Compaction
	case l.Type != "user" && l.Type != "assistant":
		return Telemetry
	case l.APIError || l.Message.Model == "<synthetic>":
		return APIError
	case l.Meta:
		return Meta
	}
	text := l.firstText()
	for _, begin := range localCommands {
		if l.Type == "user" && strings.HasPrefix(text, begin) {
			return LocalCommand
		}
	}
	if c := strings.TrimSpace(string(l.Message.Content)); c == "" || c == "null" || c == `""` || c == "[]" {
		return Empty
	}
	return ""
}

func (l *ccLine) firstText() string {
	var text string
	if json.Unmarshal(l.Message.Content, &text) == nil {
		return strings.TrimSpace(text)
	}
	var blocks []ccBlock
	if json.Unmarshal(l.Message.Content, &blocks) == nil && len(blocks) > 0 && blocks[0].Type == "text" {
		return strings.TrimSpace(blocks[0].Text)
	}
	return ""
}

// path returns the rows of the current conversation of an agent: the ancestors of its last message, and what parallel
// calls have beside them.
func (f *ccFile) path(agent string) map[int32]bool {
	leaf := int32(-1)
	for i := range f.rows {
		if r := &f.rows[i]; r.agent == agent && r.reason == "" {
			leaf = int32(i)
		}
	}
	on := map[int32]bool{}
	for at := leaf; at >= 0 && !on[at]; at = f.above(at, agent) {
		on[at] = true
	}
	messages, calls := map[uint64]bool{}, map[uint64]bool{}
	note := func(r *ccRow) {
		if r.message != 0 {
			messages[r.message] = true
			for _, c := range r.calls {
				calls[c] = true
			}
		}
	}
	for at := range on {
		note(&f.rows[at])
	}
	for i := range f.rows { // parts of a message come after the first one
		r := &f.rows[i]
		if r.agent != agent || r.reason != "" || on[int32(i)] {
			continue
		}
		if up := f.messageAbove(int32(i)); r.message != 0 && messages[r.message] && (up < 0 || on[up]) {
			on[int32(i)] = true
			note(r)
		}
	}
	for i := range f.rows {
		r := &f.rows[i]
		if r.user && r.agent == agent && slices.ContainsFunc(r.results, func(c uint64) bool { return calls[c] }) {
			on[int32(i)] = true
		}
	}
	return on
}

// above returns the row that a row follows; -1 if it is the first. If its parent is not in the file, it is the message
// before it in the file.
func (f *ccFile) above(at int32, agent string) int32 {
	r := &f.rows[at]
	if up, ok := f.byID[r.parent]; ok {
		return up
	}
	if r.parent == 0 || r.leap {
		return -1
	}
	for at--; at >= 0; at-- {
		if f.rows[at].reason == "" && f.rows[at].agent == agent {
			return at
		}
	}
	return -1
}

// messageAbove returns the nearest message above a row; -1 if there is none.
func (f *ccFile) messageAbove(at int32) int32 {
	for range f.rows {
		up, ok := f.byID[f.rows[at].parent]
		if !ok || up == at {
			return -1
		}
		if at = up; f.rows[at].reason == "" {
			return at
		}
	}
	return -1
}

// readPath reads the conversation of an agent.
func (f *ccFile) readPath(agent string) error {
	on := f.path(agent)
	var list []int32
	session := ""
	for i := range f.rows {
		r := &f.rows[i]
		if r.agent != agent {
			continue
		}
		switch {
		case r.reason == "" && on[int32(i)]:
			session = cmp.Or(r.session, session)
			list = append(list, int32(i))
		case r.reason == "":
			r.reason = OtherBranch
		}
	}
	run := &f.src.run.claude
	conv := f.conversation(agent, session)
	f.now = int32(len(run.sessions))
	run.sessions = append(run.sessions, cutID(conv.ID))
	var err error
	if conv.ForkOf, conv.After, err = f.forkOf(list); err != nil {
		return err
	}
	out := &ccWriter{f: f, open: map[uint64]bool{}}
	own := slices.DeleteFunc(list, func(i int32) bool {
		_, before := run.seen[f.rows[i].id]
		if before {
			out.pass(&f.rows[i])
		}
		return before
	})
	out.b = f.src.begin(conv)
	for _, i := range own {
		if err := out.row(&f.rows[i]); err != nil {
			return err
		}
	}
	if err := out.end(); err != nil {
		return err
	}
	return out.b.flush()
}

// conversation describes the session of an agent.
func (f *ccFile) conversation(agent, session string) Conversation {
	id := claudeCode + "-" + session
	if agent == "" {
		return Conversation{ID: id, Format: "anthropic.messages", Metadata: f.about, Title: cmp.Or(f.titles[:]...)}
	}
	meta := f.src.run.claude.agents[strings.TrimSuffix(f.src.Name, path.Ext(f.src.Name))]
	kind := ""
	if meta.text("agentType") != "" {
		kind = cutID(meta.text("agentType"))
	}
	return Conversation{ID: id + "." + agent, Format: "anthropic.messages", Agent: cmp.Or(kind, "sub-agent"),
		Title: meta.text("description"), Metadata: map[string]string{"parent_session": cutID(id),
			"tool_use_id": meta.text("toolUseId"), "cwd": f.about["cwd"]}}
}

// forkOf returns the session whose rows a file repeats, and the id of the last row that it repeats.
func (f *ccFile) forkOf(list []int32) (session, after string, err error) {
	run := &f.src.run.claude
	for _, i := range slices.Backward(list) {
		if row, ok := run.seen[f.rows[i].id]; ok && row.kept {
			l, err := f.line(&f.rows[i])
			return run.sessions[row.session], l.UUID, err
		}
	}
	return "", "", nil
}

// line reads a row again.
func (f *ccFile) line(r *ccRow) (l ccLine, err error) {
	raw := make([]byte, r.size)
	if _, err := f.src.ReadAt(raw, r.off); err != nil && !errors.Is(err, io.EOF) {
		return l, err
	}
	if json.Unmarshal(f.src.whole(raw), &l) != nil {
		return l, unreadablef("the file changed while it was read")
	}
	return l, nil
}

// finish counts what is left out and notes all rows as seen.
func (f *ccFile) finish() {
	seen := f.src.run.claude.seen
	for i := range f.rows {
		r := &f.rows[i]
		if row, before := seen[r.id]; before && row.session != f.now {
			r.reason = Duplicate
		}
		f.src.report.left(r.reason, min(len(r.reason), 1))
		if _, before := seen[r.id]; !before {
			seen[r.id] = claudeRow{session: f.now}
		}
	}
}

// ccWriter makes messages of rows.
type ccWriter struct {
	f    *ccFile
	b    *builder
	turn []*ccMessage
	open map[uint64]bool // calls, by the hashes of their ids, and whether they wait for a result
}

// ccMessage is a message of the current turn.
type ccMessage struct {
	id      uint64 // of an assistant's message
	role    string
	blocks  []json.RawMessage
	calls   []string
	results *ccMessage // the message with the results of the calls
	of      *ccMessage // whose results these are
	answers []string   // the calls that the first blocks answer
	sources []string
	at      time.Time
}

// pass notes the calls of a row that the session shares with another one.
func (w *ccWriter) pass(r *ccRow) {
	for _, call := range r.calls {
		w.open[call] = true
	}
	for _, call := range r.results {
		w.open[call] = false
	}
}

// row adds a row to the current turn, or begins one with it.
func (w *ccWriter) row(r *ccRow) error {
	l, err := w.f.line(r)
	if err != nil {
		return err
	}
	blocks := parseList(l.Message.Content)
	if blocks == nil {
		blocks = []json.RawMessage{encode(map[string]json.RawMessage{"type": json.RawMessage(`"text"`), "text": l.Message.Content})}
	}
	var kept bool
	if r.user {
		kept, err = w.user(&l, blocks)
	} else {
		kept = w.assistant(&l, r.message, blocks)
	}
	if kept {
		w.f.src.run.claude.seen[r.id] = claudeRow{session: w.f.now, kept: true}
	}
	return err
}

// assistant adds blocks to a message of the turn. Blocks of one message may have the results of others between them.
func (w *ccWriter) assistant(l *ccLine, id uint64, blocks []json.RawMessage) bool {
	var keep []json.RawMessage
	var calls []string
	for _, raw := range blocks {
		var b ccBlock
		_ = json.Unmarshal(raw, &b)
		switch {
		case b.Type == "thinking" && (b.Signature == nil || *b.Signature == ""):
			w.f.src.report.left(ReasoningUnsigned, 1)
			continue
		case b.Type == "text" && strings.TrimSpace(b.Text) == "":
			w.f.src.report.left(Empty, 1)
			continue
		case b.Type == "tool_use":
			calls = append(calls, b.ID)
			w.open[hashOf(b.ID)] = true
		}
		keep = append(keep, raw)
	}
	if len(keep) == 0 {
		return false
	}
	m := w.find(func(m *ccMessage) bool { return m.id == id })
	if m == nil {
		m = w.message("assistant", l)
		m.id = id
	}
	m.blocks, m.calls, m.sources = append(m.blocks, keep...), append(m.calls, calls...), append(m.sources, l.UUID)
	return true
}

func (w *ccWriter) find(is func(*ccMessage) bool) *ccMessage {
	for _, m := range slices.Backward(w.turn) {
		if is(m) {
			return m
		}
	}
	return nil
}

// message adds an empty message to the turn.
func (w *ccWriter) message(role string, l *ccLine) *ccMessage {
	m := &ccMessage{role: role, at: timeOf(l.Timestamp)}
	w.turn = append(w.turn, m)
	return m
}

// user adds a user's row: results join those of the same message, and what a person wrote begins a turn.
func (w *ccWriter) user(l *ccLine, blocks []json.RawMessage) (kept bool, err error) {
	var rest []json.RawMessage
	results := false
	var into *ccMessage
	for _, raw := range blocks {
		var b ccBlock
		_ = json.Unmarshal(raw, &b)
		switch {
		case b.Type == "tool_result":
			results = true
			if m := w.result(l, &b, raw); m != nil {
				into, kept = m, true
			}
		case b.Type == "text" && strings.TrimSpace(b.Text) == "":
			w.f.src.report.left(Empty, 1)
		default:
			rest = append(rest, raw)
		}
	}
	if len(rest) == 0 {
		return kept, nil
	}
	if into == nil {
		if !results && l.byPerson() {
			if err := w.end(); err != nil {
				return false, err
			}
			if err := w.b.turn(); err != nil {
				return false, err
			}
		}
		into = w.message("user", l)
		into.sources = append(into.sources, l.UUID)
	}
	into.blocks = append(into.blocks, rest...)
	return true, nil
}

// byPerson reports whether a person wrote a row's text.
func (l *ccLine) byPerson() bool {
	text := l.firstText()
	return parseObject(l.Origin).text("kind") != "task-notification" && !strings.HasPrefix(text, "<task-notification>") &&
		!strings.HasPrefix(text, "[Request interrupted by user")
}

// result adds a result to the message with the results of its call's message. It returns nil if no call waits for it.
func (w *ccWriter) result(l *ccLine, b *ccBlock, raw json.RawMessage) *ccMessage {
	waits, called := w.open[hashOf(b.ToolUseID)]
	if !waits {
		reason := ResultWithoutCall
		if called {
			reason = Duplicate
		}
		w.f.src.report.left(reason, 1)
		return nil
	}
	w.open[hashOf(b.ToolUseID)] = false
	of := w.find(func(m *ccMessage) bool { return slices.Contains(m.calls, b.ToolUseID) })
	m := w.message("user", l)
	switch {
	case of == nil: // of an earlier turn
	case of.results != nil:
		w.turn = w.turn[:len(w.turn)-1]
		m = of.results
	default: // the results follow their calls at once
		w.turn = slices.Insert(w.turn[:len(w.turn)-1], slices.Index(w.turn, of)+1, m)
		of.results, m.of = m, of
	}
	at := len(m.answers)
	if m.of != nil { // in the order of the calls
		for at > 0 && slices.Index(m.of.calls, m.answers[at-1]) > slices.Index(m.of.calls, b.ToolUseID) {
			at--
		}
	}
	m.blocks, m.answers = slices.Insert(m.blocks, at, raw), slices.Insert(m.answers, at, b.ToolUseID)
	if !slices.Contains(m.sources, l.UUID) {
		m.sources = append(m.sources, l.UUID)
	}
	return m
}

// end passes the messages of the turn on.
func (w *ccWriter) end() error {
	for _, m := range w.turn {
		raw := encode(map[string]any{"role": m.role, "content": m.blocks})
		if err := w.b.add(Message{JSON: raw, Sources: m.sources, At: m.at}); err != nil {
			return err
		}
	}
	w.turn = nil
	return nil
}
