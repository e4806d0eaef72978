package foreign

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/foreign/sqlite"
)

// langChainRoles are the roles of LangChain's messages in OpenAI's format.
var langChainRoles = map[string]string{"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "function"}

func isLangChain(o object) bool {
	if o.has("lc", "kwargs") {
		return o.text("type") == "constructor" && strings.Contains(string(o["id"]), "Message")
	}
	_, ok := langChainRoles[strings.TrimSuffix(strings.ToLower(o.text("type")), "messagechunk")]
	return (ok || o.text("type") == "chat") && (o.object("data").has("content") || o.has("content") &&
		(o.has("additional_kwargs") || o.has("response_metadata")))
}

// readLangChain reads dumps of messages, or a database of LangChain's SQLChatMessageHistory.
func readLangChain(src *source) error {
	if strings.HasPrefix(string(src.head(16)), "SQLite format 3") {
		return src.langChainSQLite()
	}
	var all []json.RawMessage
	size := 0
	err := src.each(func(v *value) error {
		if src.bad(v) {
			return nil
		}
		if size += len(v.raw); size > maxValue {
			return unreadablef("too large: a conversation may have at most %d MiB", maxValue>>20)
		}
		all = append(all, slices.Clone(src.whole(v.raw)))
		return nil
	})
	if err != nil {
		return err
	}
	return src.langChainConversation("langchain-"+contentID(encode(all)), all)
}

func (src *source) langChainSQLite() error {
	db, err := src.sqlite()
	if err != nil {
		return unreadablef("unreadable: %v", err)
	}
	sessions, order, size := map[string][]json.RawMessage{}, []string{}, 0
	err = rows(db, db.Table("session_id", "message"), func(r sqlite.Row) error {
		id, raw := r.Text("session_id"), r.Text("message")
		if size += len(raw); size > 4*maxValue {
			return unreadablef("too large: the messages take more than %d MiB", 4*maxValue>>20)
		}
		if sessions[id] == nil {
			order = append(order, id)
		}
		sessions[id] = append(sessions[id], json.RawMessage(raw))
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range order {
		if err := src.langChainConversation("langchain-"+id, sessions[id]); err != nil {
			return err
		}
	}
	return nil
}

func (src *source) langChainConversation(id string, list []json.RawMessage) error {
	w := &chatWriter{src: src, open: map[string]string{},
		b: src.begin(Conversation{ID: id, Format: "openai.chat", Metadata: map[string]string{}})}
	for i, raw := range list {
		o := fromLangChain(parseObject(raw))
		switch {
		case o == nil:
			src.report.unknown("a record that is no message")
		case o.text("role") == "system":
			src.report.left(SystemPrompt, 1)
		default:
			if err := w.message(o, fmt.Sprint(i)); err != nil {
				return err
			}
		}
	}
	if w.b.last == "" {
		src.report.left(EmptyConversation, 1)
	}
	return w.b.flush()
}

// fromLangChain returns a message of LangChain in OpenAI's format; nil if it is none.
func fromLangChain(o object) object {
	kind := o.text("type")
	data := o
	switch {
	case o.has("kwargs"):
		data = o.object("kwargs")
		kind = cmp.Or(data.text("type"), lastName(o["id"]))
	case o.has("data"):
		data = o.object("data")
	}
	kind = strings.ToLower(kind)
	kind = strings.TrimSuffix(strings.TrimSuffix(kind, "chunk"), "message")
	role := langChainRoles[kind]
	if kind == "chat" {
		role = data.text("role")
	}
	if data == nil || role == "" {
		return nil
	}
	out := object{"role": encode(role), "content": data["content"]}
	if id := data.text("id"); id != "" {
		out["id"] = encode(id)
	}
	for _, name := range [...]string{"name", "tool_call_id"} {
		if v := data.text(name); v != "" {
			out[name] = encode(v)
		}
	}
	if role == "assistant" {
		langChainCalls(data, out)
	}
	if role == "tool" && data.text("status") == "error" {
		out["is_error"] = json.RawMessage("true")
	}
	return out
}

func lastName(raw json.RawMessage) string {
	list := parseList(raw)
	var name string
	if len(list) > 0 {
		_ = json.Unmarshal(list[len(list)-1], &name)
	}
	return name
}

// langChainCalls adds the calls of a message. Its content repeats them as blocks, which go, as does the reasoning of
// other providers, for which OpenAI's format has no place.
func langChainCalls(data, out object) {
	var calls []any
	for _, raw := range data.list("tool_calls") {
		c := parseObject(raw)
		call := map[string]any{"type": "function", "function": map[string]string{"name": c.text("name"),
			"arguments": cmp.Or(string(c["args"]), "{}")}}
		if id := c.text("id"); id != "" {
			call["id"] = id
		}
		calls = append(calls, call)
	}
	if calls == nil {
		for _, raw := range data.object("additional_kwargs").list("tool_calls") {
			calls = append(calls, raw)
		}
	}
	if calls != nil {
		out["tool_calls"] = encode(calls)
	}
	var texts []string
	list := data.list("content")
	for _, raw := range list {
		o := parseObject(raw)
		if o.text("type") == "text" {
			texts = append(texts, o.text("text"))
		}
	}
	if list != nil {
		out["content"] = encode(strings.Join(texts, "\n"))
	}
	for _, raw := range data.list("invalid_tool_calls") {
		var text string
		_ = json.Unmarshal(out["content"], &text)
		out["content"] = encode(strings.TrimSpace(text + "\n" + string(raw)))
	}

}

// readMem0 reads what mem0's get_all returned.
func readMem0(src *source) error {
	return src.each(func(v *value) error {
		if src.bad(v) {
			return nil
		}
		o := parseObject(src.whole(v.raw))
		list := o.list("results")
		if list == nil {
			list = []json.RawMessage{v.raw}
		}
		for _, raw := range list {
			if err := src.mem0Memory(parseObject(raw)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (src *source) mem0Memory(o object) error {
	if strings.TrimSpace(o.text("memory")) == "" {
		src.report.left(Empty, 1)
		return nil
	}
	m := Memory{Key: o.text("id"), Content: o.text("memory"), Created: o.time("created_at"), Updated: o.time("updated_at"),
		Metadata: map[string]string{"source_id": o.text("id")}}
	namespace := []string{"import", mem0}
	for _, name := range [...]string{"user_id", "agent_id", "run_id"} {
		if id := o.text(name); id != "" {
			namespace = append(namespace, id)
		}
	}
	m.Namespace = namespace
	for name, raw := range o.object("metadata") {
		if s := o.object("metadata").text(name); s != "" && len(m.Metadata) < 32 {
			m.Metadata[name] = cutText(s, 256)
		} else if len(raw) < 32 && raw[0] != '{' && raw[0] != '[' && len(m.Metadata) < 32 {
			m.Metadata[name] = string(raw)
		}
	}
	return src.memory(mem0, m)
}

// readMem0SQLite reads mem0's history: the newest text of each memory that was not deleted.
func readMem0SQLite(src *source) error {
	db, err := src.sqlite()
	if err != nil {
		return unreadablef("unreadable: %v", err)
	}
	memories, order := map[string]*Memory{}, []string{}
	err = rows(db, db.Table("memory_id", "old_memory", "new_memory", "event"), func(r sqlite.Row) error {
		id := r.Text("memory_id")
		at := timeOf(cmp.Or(r.Text("updated_at"), r.Text("created_at")))
		m := memories[id]
		if m == nil {
			m = &Memory{Key: id, Created: timeOf(r.Text("created_at")), Metadata: map[string]string{"source_id": id}}
			memories[id], order = m, append(order, id)
		} else {
			src.report.left(Telemetry, 1) // an earlier version
		}
		m.Content, m.Updated = r.Text("new_memory"), at
		if strings.EqualFold(r.Text("event"), "DELETE") || r.Text("is_deleted") == "1" {
			m.Content = ""
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range order {
		m := memories[id]
		if strings.TrimSpace(m.Content) == "" {
			src.report.left(Hidden, 1)
			continue
		}
		if err := src.memory(mem0, *m); err != nil {
			return err
		}
	}
	return nil
}

// readLetta reads an agent file of Letta: blocks become memories, messages a conversation.
func readLetta(src *source) error {
	return src.each(func(v *value) error {
		if src.bad(v) {
			return nil
		}
		raw := src.whole(v.raw)
		o := parseObject(raw)
		blocks, all := map[string]object{}, o.list("blocks")
		for _, b := range all {
			if o := parseObject(b); o != nil {
				blocks[o.text("id")] = o
			}
		}
		list := o.list("agents")
		if list == nil {
			list = []json.RawMessage{raw}
		}
		for _, a := range list {
			if err := src.lettaAgent(parseObject(a), blocks); err != nil {
				return err
			}
		}
		return nil
	})
}

func (src *source) lettaAgent(a object, blocks map[string]object) error {
	name := cmp.Or(a.text("name"), a.text("id"), "agent")
	own := []object{}
	for _, raw := range slices.Concat(a.list("core_memory"), a.list("blocks"), a.list("block_ids"), a.object("memory").list("blocks")) {
		var id string
		if json.Unmarshal(raw, &id) == nil {
			own = append(own, blocks[id])
		} else {
			own = append(own, parseObject(raw))
		}
	}
	for _, b := range own {
		if strings.TrimSpace(b.text("value")) == "" || b.text("label") == "" {
			continue
		}
		m := Memory{Namespace: []string{"import", letta, name}, Key: b.text("label"), Content: b.text("value"),
			Created: b.time("created_at"), Updated: b.time("updated_at"),
			Metadata: map[string]string{"limit": string(b["limit"]), "read_only": string(b["read_only"])}}
		if err := src.memory(letta, m); err != nil {
			return err
		}
	}
	id := cmp.Or(a.text("id"), contentID(encode(a["messages"])))
	w := &chatWriter{src: src, open: map[string]string{}, b: src.begin(Conversation{ID: letta + "-" + name + "-" + id,
		Title: a.text("name"), Format: "openai.chat", Created: a.time("created_at"), Metadata: map[string]string{}})}
	for i, raw := range a.list("messages") {
		if err := w.letta(parseObject(raw), fmt.Sprint(i)); err != nil {
			return err
		}
	}
	return w.b.flush()
}

// letta adds a message of Letta. Its agents speak by calling send_message.
func (w *chatWriter) letta(o object, id string) error {
	text := o.text("content")
	for _, raw := range o.list("content") {
		if c := parseObject(raw); c.text("type") == "text" {
			text = strings.TrimSpace(text + "\n" + c.text("text"))
		}
	}
	out := object{"role": o["role"], "content": encode(text), "created_at": o["created_at"], "tool_call_id": o["tool_call_id"]}
	if v := o.text("id"); v != "" {
		out["id"] = encode(v)
	}
	switch o.text("role") {
	case "system":
		w.src.report.left(SystemPrompt, 1)
		return nil
	case "user":
		if user := parseObject([]byte(text)); user != nil && user.has("type") {
			if user.text("type") != "user_message" {
				w.src.report.left(HarnessPrompt, 1)
				return nil
			}
			out["content"] = encode(user.text("message"))
		}
	case "assistant":
		var calls []json.RawMessage
		for _, raw := range o.list("tool_calls") {
			f := parseObject(raw).object("function")
			if f.text("name") == "send_message" {
				said := parseObject([]byte(f.text("arguments"))).text("message")
				text = said
				continue
			}
			calls = append(calls, raw)
		}
		out["content"] = encode(text)
		if calls != nil {
			out["tool_calls"] = encode(calls)
		}
	case "tool":
		if call := o.text("tool_call_id"); call != "" && !slices.Contains(w.order, call) {
			w.src.report.left(Telemetry, 1) // the result of send_message
			return nil
		}
	}
	return w.message(out, id)
}
