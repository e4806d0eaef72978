package foreign

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// gptNode is a node of a conversation's tree.
type gptNode struct {
	ID       string      `json:"id"`
	Parent   *string     `json:"parent"`
	Children []string    `json:"children"`
	Message  *gptMessage `json:"message"`
}

type gptMessage struct {
	ID     string `json:"id"`
	Author struct {
		Role string  `json:"role"`
		Name *string `json:"name"`
	} `json:"author"`
	Created   json.RawMessage `json:"create_time"`
	Content   json.RawMessage `json:"content"`
	Weight    *float64        `json:"weight"`
	Recipient string          `json:"recipient"`
	Metadata  struct {
		Hidden      bool              `json:"is_visually_hidden_from_conversation"`
		Attachments []json.RawMessage `json:"attachments"`
	} `json:"metadata"`
}

// readChatGPT reads a data export, or a part of one.
func readChatGPT(src *source) error {
	r := &gptReader{src: src, contexts: map[string]Memory{}}
	if err := src.each(r.conversation); err != nil {
		return err
	}
	for _, key := range [...]string{"user-profile", "user-instructions"} {
		if m, ok := r.contexts[key]; ok {
			if err := src.memory(chatGPT, m); err != nil {
				return err
			}
		}
	}
	return nil
}

type gptReader struct {
	src      *source
	contexts map[string]Memory // what the user said of themselves; the newest counts
}

// conversation reads one conversation.
func (r *gptReader) conversation(v *value) error {
	if r.src.bad(v) {
		return nil
	}
	var c struct {
		ConversationID string             `json:"conversation_id"`
		ID             string             `json:"id"`
		Title          string             `json:"title"`
		Created        json.RawMessage    `json:"create_time"`
		Model          string             `json:"default_model_slug"`
		GPT            string             `json:"gizmo_id"`
		Current        string             `json:"current_node"`
		Mapping        map[string]gptNode `json:"mapping"`
	}
	raw := r.src.whole(v.raw)
	if json.Unmarshal(raw, &c) != nil || c.Mapping == nil {
		r.src.report.unknown("an element that is no conversation")
		return nil
	}
	id := cmp.Or(c.ConversationID, c.ID)
	if id == "" {
		id = contentID(raw)
	}
	w := &gptWriter{r: r, b: r.src.begin(Conversation{ID: chatGPT + "-" + id, Title: c.Title, Format: "openai.chat",
		Created: parseTime(c.Created), Metadata: map[string]string{"model": c.Model, "gpt": c.GPT}})}
	path := gptPath(c.Mapping, c.Current)
	on := map[string]bool{}
	kept := 0
	for _, id := range path {
		on[id] = true
		node := c.Mapping[id]
		if node.Message == nil {
			continue
		}
		node.Message.ID = cmp.Or(node.ID, node.Message.ID, id)
		n, err := w.node(node.Message)
		if err != nil {
			return err
		}
		kept += n
	}
	for id, node := range c.Mapping {
		if !on[id] && node.Message != nil {
			r.src.report.left(OtherBranch, 1)
		}
	}
	if err := w.end(); err != nil {
		return err
	}
	return w.b.flush()
}

// gptPath returns the nodes from the root to the current one.
func gptPath(nodes map[string]gptNode, current string) (path []string) {
	if _, ok := nodes[current]; !ok {
		current = newestLeaf(nodes)
	}
	seen := map[string]bool{}
	for current != "" && !seen[current] {
		node, ok := nodes[current]
		if !ok {
			break
		}
		seen[current] = true
		path = append(path, current)
		if node.Parent == nil {
			break
		}
		current = *node.Parent
	}
	slices.Reverse(path)
	return path
}

// newestLeaf returns the newest node of a user or an assistant without children.
func newestLeaf(nodes map[string]gptNode) (newest string) {
	var at time.Time
	for id, n := range nodes {
		if len(n.Children) > 0 || n.Message == nil || !oneOf(n.Message.Author.Role, "user", "assistant") {
			continue
		}
		if t := parseTime(n.Message.Created); newest == "" || t.After(at) || t.Equal(at) && id > newest {
			newest, at = id, t
		}
	}
	return newest
}

// gptWriter makes messages of nodes.
type gptWriter struct {
	r        *gptReader
	b        *builder
	thoughts []string // that wait for the next message of the assistant
	sources  []string // of the thoughts
	thought  time.Time
	call     string // the nearest call above; "" if there is none
	result   *gptResult
}

// gptResult is the result of the current call. Several nodes may make it up.
type gptResult struct {
	texts   []string
	sources []string
	at      time.Time
}

// node adds a node.
func (w *gptWriter) node(m *gptMessage) (int, error) {
	content := parseObject(m.Content)
	kind := content.text("content_type")
	if kind == "user_editable_context" || kind == "model_editable_context" {
		w.r.context(m, content)
		w.r.src.report.left(Hidden, 1)
		return 0, nil
	}
	switch {
	case m.Author.Role == "system" && m.Weight == nil && !m.Metadata.Hidden && gptText(content) != "":
		w.r.src.report.left(SystemPrompt, 1)
		return 0, nil
	case m.Author.Role == "system", m.Metadata.Hidden, m.Weight != nil && *m.Weight == 0:
		w.r.src.report.left(Hidden, 1)
		return 0, nil
	case kind == "reasoning_recap":
		w.r.src.report.left(Telemetry, 1)
		return 0, nil
	case kind == "thoughts":
		w.think(m, content)
		return 0, nil
	case m.Author.Role == "tool" || oneOf(kind, "execution_output", "tether_browsing_display", "tether_quote", "computer_output",
		"system_error"):
		return 0, w.tool(m, content)
	case m.Author.Role == "user":
		return 1, w.user(m, content)
	case m.Author.Role == "assistant":
		return 1, w.assistant(m, content, kind)
	}
	w.r.src.report.unknown(cmp.Or(kind, m.Author.Role))
	return 0, nil
}

// context notes what the user said of themselves.
func (r *gptReader) context(m *gptMessage, content object) {
	at := parseTime(m.Created)
	for key, text := range map[string]string{"user-profile": content.text("user_profile"),
		"user-instructions": content.text("user_instructions"), "model-context": content.text("model_set_context")} {
		old, known := r.contexts[key]
		if text != "" && key != "model-context" && (!known || !at.Before(old.Updated)) {
			r.contexts[key] = Memory{Key: key, Content: text, Created: at, Updated: at}
		}
	}
}

func (w *gptWriter) think(m *gptMessage, content object) {
	for _, raw := range content.list("thoughts") {
		o := parseObject(raw)
		text := strings.TrimSpace(o.text("summary") + "\n" + o.text("content"))
		if text != "" {
			w.thoughts = append(w.thoughts, text)
		}
	}
	w.sources = append(w.sources, m.ID)
	if w.thought.IsZero() {
		w.thought = parseTime(m.Created)
	}
}

// gptText returns the text of a content.
func gptText(content object) string {
	for _, name := range [...]string{"text", "result", "content"} {
		if s := content.text(name); s != "" {
			if name == "text" && content.has("name") && content.text("content_type") == "system_error" {
				return content.text("name") + ": " + s
			}
			return s
		}
	}
	var texts []string
	for _, raw := range content.list("parts") {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			s = parseObject(raw).text("text")
		}
		if s != "" {
			texts = append(texts, s)
		}
	}
	return strings.Join(texts, "\n")
}

// tool adds the result of the call above.
func (w *gptWriter) tool(m *gptMessage, content object) error {
	text := gptText(content)
	if w.call == "" {
		w.r.src.report.left(ResultWithoutCall, 1)
		return nil
	}
	if w.result == nil {
		w.result = &gptResult{at: parseTime(m.Created)}
	}
	for _, raw := range content.list("parts") {
		if o := parseObject(raw); o.has("asset_pointer") {
			text = strings.TrimSpace(text + "\n" + w.r.missing(o))
		}
	}
	if text != "" {
		w.result.texts = append(w.result.texts, text)
	}
	w.result.sources = append(w.result.sources, m.ID)
	return nil
}

func (r *gptReader) missing(o object) string {
	r.src.report.left(ImageMissing, 1)
	return "[image: " + assetID(o.text("asset_pointer")) + "]"
}

// flush adds the result of the current call.
func (w *gptWriter) flush() error {
	if w.result == nil {
		return nil
	}
	res := w.result
	w.result = nil
	return w.b.add(Message{JSON: encode(map[string]string{"role": "tool", "tool_call_id": w.call,
		"content": strings.Join(res.texts, "\n")}), Sources: res.sources, At: res.at})
}

func (w *gptWriter) user(m *gptMessage, content object) error {
	parts, ok := w.r.parts(m, content)
	if !ok {
		w.r.src.report.left(Empty, 1)
		return nil
	}
	if err := w.end(); err != nil {
		return err
	}
	if err := w.b.turn(); err != nil {
		return err
	}
	w.call = ""
	return w.b.add(Message{JSON: encode(map[string]any{"role": "user", "content": parts}), Sources: []string{m.ID},
		At: parseTime(m.Created)})
}

// end ends a turn. Thoughts that led to nothing are left out.
func (w *gptWriter) end() error {
	w.r.src.report.left(ReasoningAlone, len(w.sources))
	w.thoughts, w.sources, w.thought = nil, nil, time.Time{}
	return w.flush()
}

func (w *gptWriter) assistant(m *gptMessage, content object, kind string) error {
	if err := w.flush(); err != nil {
		return err
	}
	out := map[string]any{"role": "assistant"}
	text := gptText(content)
	calls := m.Recipient != "" && m.Recipient != "all"
	switch {
	case calls:
		out["content"] = nil
		out["tool_calls"] = []any{map[string]any{"id": m.ID, "type": "function",
			"function": map[string]string{"name": m.Recipient, "arguments": text}}}
		w.call = m.ID
	case kind == "code":
		out["content"] = "```" + strings.TrimPrefix(content.text("language"), "unknown") + "\n" + text + "\n```"
	case text == "":
		w.r.src.report.left(Empty, 1)
		return nil
	default:
		out["content"] = text
	}
	if len(w.thoughts) > 0 {
		out["reasoning_content"] = strings.Join(w.thoughts, "\n\n")
	}
	sources := append(w.sources, m.ID)
	w.thoughts, w.sources, w.thought = nil, nil, time.Time{}
	return w.b.add(Message{JSON: encode(out), Sources: sources, At: parseTime(m.Created)})
}

// parts returns the content of a user's message: a text, or parts if it has images. ok says whether there is anything.
func (r *gptReader) parts(m *gptMessage, content object) (parts any, ok bool) {
	var list []map[string]any
	var texts []string
	images, room := false, int64(maxAssets)
	for _, raw := range content.list("parts") {
		var s string
		o := parseObject(raw)
		switch {
		case o == nil:
			_ = json.Unmarshal(raw, &s)
		case o.text("content_type") == "audio_transcription":
			s = o.text("text")
		case o.text("content_type") == "image_asset_pointer":
			if url, size := r.asset(o.text("asset_pointer"), room); url != "" {
				images, room = true, room-size
				list = append(list, map[string]any{"type": "image_url", "image_url": map[string]string{"url": url}})
				continue
			}
			s = r.missing(o)
		case o.has("asset_pointer"): // audio and video, of which a transcription may be beside
			r.src.report.left(FileMissing, 1)
		}
		if s != "" {
			texts = append(texts, s)
			list = append(list, map[string]any{"type": "text", "text": s})
		}
	}
	if text := content.text("text"); text != "" {
		texts = append(texts, text)
		list = append(list, map[string]any{"type": "text", "text": text})
	}
	for _, raw := range m.Metadata.Attachments {
		o := parseObject(raw)
		if strings.HasPrefix(o.text("mime_type"), "image/") || !o.has("name") {
			continue
		}
		r.src.report.left(FileMissing, 1)
		s := "[file: " + o.text("name") + "]"
		texts, list = append(texts, s), append(list, map[string]any{"type": "text", "text": s})
	}
	if !images {
		return strings.Join(texts, "\n"), len(texts) > 0
	}
	return list, true
}

// maxAsset is the maximum size of an image that becomes part of its message, and maxAssets that of all images of one
// message, in bytes.
const (
	maxAsset  = 5 << 20
	maxAssets = 4 * maxAsset
)

func assetID(pointer string) string {
	_, id, ok := strings.Cut(pointer, "://")
	if !ok {
		id = pointer
	}
	return id
}

// asset returns an image of the export as a data URL, and its size; "" if it is not there, too large, or larger than
// room.
func (r *gptReader) asset(pointer string, room int64) (url string, size int64) {
	id := assetID(pointer)
	if id == "" {
		return "", 0
	}
	folder := path.Dir(r.src.Name)
	names := make([]string, 0, 1)
	for name := range r.src.beside {
		if strings.HasPrefix(name, folder+"/") && strings.HasPrefix(path.Base(name), id) || path.Dir(name) == folder &&
			strings.HasPrefix(path.Base(name), id) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		l := r.src.beside[name]
		kind := imageType(l)
		if kind == "" || l.Size > min(maxAsset, room) {
			continue
		}
		raw, err := io.ReadAll(io.NewSectionReader(l, 0, l.Size))
		if err != nil {
			continue
		}
		l.problem = ""
		l.format = "asset"
		return fmt.Sprintf("data:%s;base64,%s", kind, base64.StdEncoding.EncodeToString(raw)), l.Size
	}
	return "", 0
}

// imageType returns the media type of an image that models take; "" for anything else.
func imageType(l *leaf) string {
	head := string(l.head(12))
	switch {
	case strings.HasPrefix(head, "\x89PNG"):
		return "image/png"
	case strings.HasPrefix(head, "\xFF\xD8\xFF"):
		return "image/jpeg"
	case strings.HasPrefix(head, "GIF8"):
		return "image/gif"
	case strings.HasPrefix(head, "RIFF") && strings.HasSuffix(head, "WEBP"):
		return "image/webp"
	}
	return ""
}
