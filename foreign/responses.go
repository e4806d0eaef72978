package foreign

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// itemTypes are the types of items of OpenAI's Responses API that are kept.
var itemTypes = []string{"message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
	"custom_tool_call_output", "local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output",
	"apply_patch_call", "apply_patch_call_output", "tool_search_call", "tool_search_output", "web_search_call",
	"file_search_call", "computer_call", "computer_call_output", "code_interpreter_call", "image_generation_call", "mcp_call",
	"mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "agent_message"}

// isItem reports whether an object is an item of the Responses API with a type.
func isItem(o object) bool {
	switch t := o.text("type"); t {
	case "message":
		return o.has("role", "content")
	case "reasoning":
		return o.has("summary") || o.has("encrypted_content")
	default:
		return slices.Contains(itemTypes, t) && (o.has("id") || o.has("call_id"))
	}
}

func isResponses(o object) bool {
	switch o.text("object") {
	case "response":
		return o.has("output")
	case "list":
		list := o.list("data")
		return len(list) > 0 && isItem(parseObject(list[0]))
	}
	return isItem(o)
}

// itemWriter makes messages of items.
type itemWriter struct {
	src       *source
	b         *builder
	reasoning []item // that waits for the item it led to
	open      map[string]bool
	injected  func(o object) bool // reports whether an item of the user was injected by the program; nil: none is
}

// item is one item with its source id and time.
type item struct {
	raw []byte
	o   object
	id  string
	at  time.Time
}

func (src *source) items(c Conversation) *itemWriter {
	c.Format = "openai.responses"
	return &itemWriter{src: src, b: src.begin(c), open: map[string]bool{}}
}

// add adds an item.
func (w *itemWriter) add(it item) error {
	kind := it.o.text("type")
	if kind == "" && it.o.has("role", "content") {
		kind = "message"
	}
	role := it.o.text("role")
	switch {
	case it.o.has("__enc__"):
		w.src.report.left(Encrypted, 1)
	case strings.HasPrefix(kind, "compaction"), kind == "context_compaction":
		w.src.report.left(Compaction, 1)
	case kind == "message" && oneOf(role, "system", "developer"):
		w.src.report.left(w.systemReason(), 1)
	case kind == "message" && role == "user":
		if w.injected != nil && w.injected(it.o) {
			w.src.report.left(HarnessPrompt, 1)
			return nil
		}
		if emptyContent(it.o["content"]) {
			w.src.report.left(Empty, 1)
			return nil
		}
		if err := w.turn(); err != nil {
			return err
		}
		return w.message(it)
	case kind == "reasoning":
		w.reasoning = append(w.reasoning, it)
	case strings.HasSuffix(kind, "_output"):
		return w.result(it)
	case kind == "message" && emptyContent(it.o["content"]):
		w.src.report.left(Empty, 1)
	case kind == "message", slices.Contains(itemTypes, kind):
		if id := it.o.text("call_id"); id != "" {
			w.open[id] = true
		}
		return w.message(it)
	default:
		w.src.report.unknown(kind)
	}
	return nil
}

func (w *itemWriter) systemReason() string {
	if w.injected != nil {
		return HarnessPrompt
	}
	return SystemPrompt
}

func emptyContent(raw json.RawMessage) bool {
	s := strings.TrimSpace(string(raw))
	return s == "" || s == "null" || s == `""` || s == "[]"
}

// result adds the result of a call that waits for it.
func (w *itemWriter) result(it item) error {
	id := it.o.text("call_id")
	waits, called := w.open[id]
	switch {
	case waits:
		w.open[id] = false
		if err := w.alone(); err != nil {
			return err
		}
		return w.message(it)
	case called:
		w.src.report.left(Duplicate, 1)
	default:
		w.src.report.left(ResultWithoutCall, 1)
	}
	return nil
}

// message adds an item with the reasoning that led to it.
func (w *itemWriter) message(it item) error {
	var raws []json.RawMessage
	var ids []string
	for _, r := range append(w.reasoning, it) {
		raws, ids = append(raws, json.RawMessage(w.src.whole(r.raw))), append(ids, r.id)
	}
	w.reasoning = nil
	return w.b.add(Message{JSON: encode(raws), Sources: ids, At: it.at})
}

// turn begins a turn. Reasoning that led to nothing is left out.
func (w *itemWriter) turn() error {
	if err := w.alone(); err != nil {
		return err
	}
	return w.b.turn()
}

func (w *itemWriter) alone() error {
	w.src.report.left(ReasoningAlone, len(w.reasoning))
	w.reasoning = nil
	return nil
}

func (w *itemWriter) end() error {
	if err := w.alone(); err != nil {
		return err
	}
	return w.b.flush()
}

// readResponses reads a log of items, of lists of items, or of response objects.
func readResponses(src *source) error {
	var all []json.RawMessage
	size := 0
	var created time.Time
	err := src.each(func(v *value) error {
		if src.bad(v) {
			return nil
		}
		if size += len(v.raw); size > maxValue {
			return unreadablef("too large: a log of items may have at most %d MiB", maxValue>>20)
		}
		o := parseObject(v.raw)
		if at := o.time("created_at"); created.IsZero() {
			created = at
		}
		switch {
		case o.text("object") == "response":
			if list := parseList(o["input"]); list != nil {
				all = append(all, list...)
			}
			for _, raw := range o.list("output") {
				all = append(all, dated(raw, o["created_at"]))
			}
		case o.text("object") == "list":
			all = append(all, oldestFirst(o.list("data"))...)
		default:
			all = append(all, slices.Clone(v.raw))
		}
		return nil
	})
	if err != nil {
		return err
	}
	w := src.items(Conversation{ID: responses + "-" + contentID(encode(all)), Created: created})
	for i, raw := range all {
		o := parseObject(raw)
		at := o.time("created_at")
		if o.has("created_at") {
			delete(o, "created_at")
			raw = encode(o)
		}
		if err := w.add(item{raw: raw, o: o, id: cmp.Or(o.text("id"), fmt.Sprint(i)), at: at}); err != nil {
			return err
		}
	}
	return w.end()
}

// dated adds a time to an item that has none.
func dated(raw, at json.RawMessage) json.RawMessage {
	o := parseObject(raw)
	if o == nil || o.has("created_at") || at == nil {
		return raw
	}
	o["created_at"] = at
	return encode(o)
}

// oldestFirst reverses a list of items that is newest first, as their times say, or the order of calls and results.
func oldestFirst(list []json.RawMessage) []json.RawMessage {
	called := map[string]bool{}
	for i, raw := range list {
		o := parseObject(raw)
		id := o.text("call_id")
		if i > 0 {
			before, now := parseObject(list[i-1]).time("created_at"), o.time("created_at")
			if !now.IsZero() && now.Before(before) {
				slices.Reverse(list)
				return list
			}
		}
		if strings.HasSuffix(o.text("type"), "_output") && !called[id] && slices.ContainsFunc(list[i:], func(later json.RawMessage) bool {
			l := parseObject(later)
			return l.text("call_id") == id && !strings.HasSuffix(l.text("type"), "_output")
		}) {
			slices.Reverse(list)
			return list
		}
		called[id] = true
	}
	return list
}
