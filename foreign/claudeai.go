package foreign

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// readClaudeAI reads a data export of Claude.ai: conversations, memories and projects.
func readClaudeAI(src *source) error {
	return src.each(func(v *value) error {
		if src.bad(v) {
			return nil
		}
		raw := src.whole(v.raw)
		o := parseObject(raw)
		switch {
		case o.has("chat_messages"):
			return src.claudeAIConversation(raw)
		case o.has("conversations_memory") || o.has("project_memories"):
			return src.claudeAIMemories(o)
		case o.has("docs", "prompt_template"):
			return src.claudeAIProject(o)
		}
		src.report.unknown("an element that is no conversation")
		return nil
	})
}

func (src *source) claudeAIMemories(o object) error {
	at := o.time("updated_at")
	if text := o.text("conversations_memory"); text != "" {
		if err := src.memory(claudeAI, Memory{Key: "account", Content: text, Created: at, Updated: at}); err != nil {
			return err
		}
	}
	projects := o.object("project_memories")
	for _, id := range sortedNames(projects) {
		if text := projects.text(id); text != "" {
			if err := src.memory(claudeAI, Memory{Key: "project-" + id, Content: text, Created: at, Updated: at}); err != nil {
				return err
			}
		}
	}
	return nil
}

func sortedNames(o object) (names []string) {
	for name := range o {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (src *source) claudeAIProject(o object) error {
	for _, raw := range o.list("docs") {
		doc := parseObject(raw)
		if strings.TrimSpace(doc.text("content")) == "" {
			src.report.left(Empty, 1)
			continue
		}
		at := doc.time("created_at")
		m := Memory{Namespace: []string{"import", claudeAI, "projects", cmp.Or(o.text("name"), o.text("uuid"))},
			Key: cmp.Or(doc.text("filename"), doc.text("uuid")), Content: doc.text("content"), Created: at, Updated: at,
			Metadata: map[string]string{"source_id": doc.text("uuid")}}
		if err := src.memory(claudeAI, m); err != nil {
			return err
		}
	}
	return nil
}

// webMessage is a message of Claude.ai.
type webMessage struct {
	UUID        string            `json:"uuid"`
	Sender      string            `json:"sender"`
	Text        string            `json:"text"`
	Content     []json.RawMessage `json:"content"`
	Created     string            `json:"created_at"`
	Parent      string            `json:"parent_message_uuid"`
	Attachments []struct {
		Name string `json:"file_name"`
		Text string `json:"extracted_content"`
	} `json:"attachments"`
	Files []struct {
		Name string `json:"file_name"`
	} `json:"files"`
}

func (src *source) claudeAIConversation(raw []byte) error {
	var c struct {
		UUID     string       `json:"uuid"`
		Name     string       `json:"name"`
		Created  string       `json:"created_at"`
		Model    string       `json:"model"`
		Messages []webMessage `json:"chat_messages"`
	}
	if json.Unmarshal(raw, &c) != nil {
		src.report.unknown("a conversation with fields of other types")
		return nil
	}
	on := webPath(c.Messages)
	w := &webWriter{src: src, b: src.begin(Conversation{ID: claudeAI + "-" + cmp.Or(c.UUID, contentID(raw)), Title: c.Name,
		Format: "anthropic.messages", Created: timeOf(c.Created), Metadata: map[string]string{"model": c.Model}})}
	for i := range c.Messages {
		if !on[i] {
			src.report.left(OtherBranch, 1)
			continue
		}
		if err := w.message(&c.Messages[i]); err != nil {
			return err
		}
	}
	if w.b.last == "" {
		src.report.left(EmptyConversation, 1)
	}
	return w.b.flush()
}

// webPath returns which messages are on the path to the newest leaf. Without parents, all are.
func webPath(list []webMessage) map[int]bool {
	byID, parents, tree := map[string]int{}, map[string]bool{}, false
	for i := range list {
		byID[list[i].UUID] = i
		parents[list[i].Parent] = true
		tree = tree || list[i].Parent != ""
	}
	on := map[int]bool{}
	if !tree {
		for i := range list {
			on[i] = true
		}
		return on
	}
	leaf, newest := -1, time.Time{}
	for i := range list {
		if at := timeOf(list[i].Created); !parents[list[i].UUID] && (leaf < 0 || !at.Before(newest)) {
			leaf, newest = i, at
		}
	}
	for leaf >= 0 && !on[leaf] {
		on[leaf] = true
		up, ok := byID[list[leaf].Parent]
		if !ok {
			break
		}
		leaf = up
	}
	return on
}

// webWriter makes messages of Claude.ai's. One of an assistant holds calls with their results: it becomes several.
type webWriter struct {
	src *source
	b   *builder
}

// webCall is a call that waits for its result.
type webCall struct{ id, name string }

func (w *webWriter) message(m *webMessage) error {
	human := m.Sender == "human"
	blocks, open := []any{}, []webCall{}
	role, calls := "assistant", 0
	if human {
		role = "user"
	}
	send := func(role string, blocks []any) error {
		return w.b.add(Message{JSON: encode(map[string]any{"role": role, "content": blocks}), Sources: []string{m.UUID},
			At: timeOf(m.Created)})
	}
	var results []any
	for _, raw := range w.content(m) {
		o := parseObject(raw)
		kind := o.text("type")
		if kind != "tool_result" && results != nil {
			if err := send("user", results); err != nil {
				return err
			}
			results = nil
		}
		switch kind {
		case "text":
			if strings.TrimSpace(o.text("text")) != "" {
				blocks = append(blocks, map[string]string{"type": "text", "text": o.text("text")})
			}
		case "thinking":
			if o.text("signature") == "" {
				w.src.report.left(ReasoningUnsigned, 1)
				continue
			}
			blocks = append(blocks, map[string]string{"type": kind, "thinking": o.text("thinking"), "signature": o.text("signature")})
		case "tool_use":
			calls++
			call := webCall{cmp.Or(o.text("id"), fmt.Sprintf("%s-%d", m.UUID, calls)), o.text("name")}
			open = append(open, call)
			input := o["input"]
			if len(input) == 0 || input[0] != '{' {
				input = json.RawMessage("{}")
			}
			blocks = append(blocks, map[string]any{"type": kind, "id": call.id, "name": call.name, "input": input})
		case "tool_result":
			id := takeCall(&open, o)
			if id == "" {
				w.src.report.left(ResultWithoutCall, 1)
				continue
			}
			if len(blocks) > 0 {
				if err := send("assistant", blocks); err != nil {
					return err
				}
				blocks = []any{}
			}
			results = append(results, map[string]any{"type": kind, "tool_use_id": id, "is_error": o.truth("is_error"),
				"content": w.resultContent(o["content"])})
		case "token_budget":
			w.src.report.left(Telemetry, 1)
		default:
			w.src.report.unknown(kind)
		}
	}
	if results != nil {
		if err := send("user", results); err != nil {
			return err
		}
	}
	if human {
		blocks = append(blocks, w.attachments(m)...)
	}
	if len(blocks) == 0 {
		if calls == 0 {
			w.src.report.left(Empty, 1)
		}
		return nil
	}
	if human {
		if err := w.b.turn(); err != nil {
			return err
		}
	}
	return send(role, blocks)
}

// content returns the blocks of a message. The text is used only if there are none.
func (w *webWriter) content(m *webMessage) []json.RawMessage {
	if len(m.Content) == 0 && strings.TrimSpace(m.Text) != "" {
		return []json.RawMessage{encode(map[string]string{"type": "text", "text": m.Text})}
	}
	return m.Content
}

// takeCall returns the call that a result answers: by its id or, without one, the last of the same name. It is "" if
// none waits.
func takeCall(open *[]webCall, result object) string {
	id := result.text("tool_use_id")
	for i, c := range slices.Backward(*open) {
		if id == c.id || id == "" && c.name == result.text("name") {
			*open = slices.Delete(*open, i, i+1)
			return c.id
		}
	}
	return ""
}

// resultContent returns the content of a result: its texts, and the JSON of anything else as text.
func (w *webWriter) resultContent(raw json.RawMessage) any {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	out := []any{}
	for _, part := range parseList(raw) {
		o := parseObject(part)
		switch {
		case o.text("type") == "text":
			out = append(out, map[string]string{"type": "text", "text": o.text("text")})
		case o.text("type") == "image":
			w.src.report.left(ImageMissing, 1)
			out = append(out, map[string]string{"type": "text", "text": "[image: " + o.text("file_uuid") + "]"})
		default:
			out = append(out, map[string]string{"type": "text", "text": string(part)})
		}
	}
	return out
}

// attachments returns the texts of a message's attachments, and the names of its files.
func (w *webWriter) attachments(m *webMessage) (blocks []any) {
	text := func(s string) { blocks = append(blocks, map[string]string{"type": "text", "text": s}) }
	for _, a := range m.Attachments {
		if a.Text == "" {
			w.src.report.left(FileMissing, 1)
			text("[file: " + a.Name + "]")
			continue
		}
		text("[" + a.Name + "]\n" + a.Text)
	}
	for _, f := range m.Files {
		w.src.report.left(FileMissing, 1)
		text("[file: " + f.Name + "]")
	}
	return blocks
}
