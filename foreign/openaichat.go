package foreign

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

func isOpenAIChat(o object) bool {
	if o.has("core_memory") || o.has("agents") || o.has("chat_messages") || o.has("mapping") {
		return false
	}
	roles := func(list []json.RawMessage) bool {
		return len(list) > 0 && parseObject(list[0]).text("role") != "" && !parseObject(list[0]).has("info")
	}
	switch {
	case roles(o.list("messages")), roles(o.list("conversation")):
		return true
	case o.has("input", "preferred_output"):
		return roles(o.object("input").list("messages"))
	case o.has("custom_id"):
		return o.object("body").has("messages") || o.has("response") && o.object("response").has("body")
	case len(o.list("conversations")) > 0:
		return parseObject(o.list("conversations")[0]).has("from", "value")
	}
	return oneOf(o.text("role"), "system", "developer", "user", "assistant", "tool", "function") && o.has("content") &&
		!o.has("type") && !o.has("uuid")
}

// chatRun joins the inputs and outputs of batches, which are in two files.
type chatRun struct {
	Counts
	inputs  map[string]*batchInput // by custom_id
	outputs map[string]object      // messages whose input was not read yet
	size    int
	seen    map[string]bool // conversations without ids of their own, by what they are made of
}

type batchInput struct {
	src  *source
	list []json.RawMessage
}

// readOpenAIChat reads a file of conversations, or one that is a conversation.
func readOpenAIChat(src *source) error {
	var bare []json.RawMessage
	size := 0
	err := src.each(func(v *value) error {
		if src.bad(v) {
			return nil
		}
		raw := src.whole(v.raw)
		o := parseObject(raw)
		if o.text("role") != "" && !o.has("messages") {
			if size += len(raw); size > maxValue {
				return unreadablef("too large: a conversation may have at most %d MiB", maxValue>>20)
			}
			bare = append(bare, append(json.RawMessage(nil), raw...))
			return nil
		}
		return src.chatRecord(o)
	})
	if err == nil && bare != nil {
		err = src.chatConversation(openAIChat, "", bare, time.Time{})
	}
	return err
}

// chatRecord reads one record.
func (src *source) chatRecord(o object) error {
	run := &src.run.chat
	switch {
	case o.has("custom_id"):
		return run.batch(src, o)
	case o.has("input", "preferred_output"):
		src.report.left(OtherBranch, min(1, len(o.list("non_preferred_output"))))
		return src.chatConversation(openAIChat, "", append(o.object("input").list("messages"), o.list("preferred_output")...), time.Time{})
	case o.has("messages"):
		return src.chatConversation(openAIChat, o.text("id"), o.list("messages"), o.time("created_at"))
	case o.has("conversation"):
		if id := o.text("conversation_id"); id != "" {
			return src.chatConversation("lmsys", id, o.list("conversation"), o.time("tstamp"))
		}
		return src.chatConversation("wildchat", o.text("conversation_hash"), o.list("conversation"), o.time("timestamp"))
	case o.has("conversations"):
		if strings.TrimSpace(o.text("system")) != "" {
			src.report.left(SystemPrompt, 1)
		}
		return src.chatConversation("sharegpt", o.text("id"), o.list("conversations"), time.Time{})
	}
	src.report.unknown("a record without messages")
	return nil
}

// batch notes a request of a batch, or passes it on with its response.
func (run *chatRun) batch(src *source, o object) error {
	if run.inputs == nil {
		run.inputs, run.outputs = map[string]*batchInput{}, map[string]object{}
	}
	id := o.text("custom_id")
	if list := o.object("body").list("messages"); list != nil {
		for _, m := range list {
			run.size += len(m)
		}
		if run.size > maxValue {
			src.report.left(TooLarge, 1)
			return nil
		}
		run.inputs[id] = &batchInput{src: src, list: list}
		if out, ok := run.outputs[id]; ok {
			return run.join(id, out)
		}
		return nil
	}
	choices := o.object("response").object("body").list("choices")
	if len(choices) == 0 {
		src.report.left(APIError, 1)
		return nil
	}
	answer := parseObject(choices[0]).object("message")
	if run.inputs[id] != nil {
		return run.join(id, answer)
	}
	run.outputs[id] = answer
	return nil
}

// join passes a request with its response on.
func (run *chatRun) join(id string, answer object) error {
	in := run.inputs[id]
	delete(run.inputs, id)
	delete(run.outputs, id)
	if answer != nil {
		in.list = append(in.list, encode(answer))
	}
	return in.src.chatConversation(openAIChat, id, in.list, time.Time{})
}

// end passes on the requests without a response, and counts the responses without a request.
func (run *chatRun) end(r *reader) error {
	for id := range run.inputs {
		if err := run.join(id, nil); err != nil {
			return err
		}
	}
	for range run.outputs {
		run.unknown("a response of a batch without its request")
	}
	return nil
}

// chatConversation reads a conversation of messages in OpenAI's format, or in ShareGPT's.
func (src *source) chatConversation(source, id string, list []json.RawMessage, created time.Time) error {
	run := &src.run.chat
	hash := contentID(encode(list))
	if run.seen == nil {
		run.seen = map[string]bool{}
	}
	name := source + "-" + cmp.Or(id, hash)
	if run.seen[name+hash] {
		src.report.left(Duplicate, 1)
		return nil
	}
	run.seen[name+hash] = true
	w := &chatWriter{src: src, created: created, open: map[string]string{},
		b: src.begin(Conversation{ID: name, Format: "openai.chat", Created: created, Metadata: map[string]string{}})}
	n := 0
	for _, raw := range list {
		o := parseObject(raw)
		if o == nil {
			src.report.unknown("a message that is no object")
			continue
		}
		if o.has("from", "value") {
			o = fromShareGPT(o)
		}
		if oneOf(o.text("role"), "system", "developer") {
			src.report.left(SystemPrompt, 1)
			continue
		}
		if err := w.message(o, fmt.Sprint(n)); err != nil {
			return err
		}
		n++
	}
	if w.b.last == "" {
		src.report.left(EmptyConversation, 1)
	}
	return w.b.flush()
}

// fromShareGPT returns a message of ShareGPT in OpenAI's format.
func fromShareGPT(o object) object {
	value := o["value"]
	role := map[string]string{"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant",
		"bing": "assistant", "bard": "assistant", "system": "system", "observation": "tool", "tool": "tool",
		"function_response": "tool", "function_call": "assistant"}[o.text("from")]
	out := object{"role": encode(cmp.Or(role, o.text("from"))), "content": value}
	if o.text("from") != "function_call" {
		return out
	}
	call := parseObject([]byte(o.text("value")))
	args := call.text("arguments")
	if args == "" {
		args = string(call["arguments"])
	}
	if call.text("name") == "" { // not as most files have it
		return out
	}
	return object{"role": encode("assistant"), "content": json.RawMessage("null"),
		"function_call": encode(map[string]string{"name": call.text("name"), "arguments": cmp.Or(args, "{}")})}
}

// chatWriter writes messages of OpenAI's format.
type chatWriter struct {
	src     *source
	b       *builder
	created time.Time
	calls   int               // made up ids so far
	open    map[string]string // calls that wait for a result: their tools, by id
	order   []string          // the waiting calls, oldest first
}

// message adds a message with the given source id.
func (w *chatWriter) message(o object, id string) error {
	at := o.time("timestamp")
	if at.IsZero() {
		at = o.time("created_at")
	}
	out := object{"role": o["role"], "content": o["content"]}
	if o.has("name") && o.text("role") != "tool" && o.text("role") != "function" {
		out["name"] = o["name"]
	}
	switch o.text("role") {
	case "user", "human":
		if emptyContent(o["content"]) {
			w.src.report.left(Empty, 1)
			return nil
		}
		out["role"] = encode("user")
		if err := w.b.turn(); err != nil {
			return err
		}
	case "assistant":
		if !w.assistant(o, out) {
			w.src.report.left(Empty, 1)
			return nil
		}
	case "tool", "function":
		call := w.answered(o)
		if call == "" {
			w.src.report.left(ResultWithoutCall, 1)
			return nil
		}
		out["role"], out["tool_call_id"] = encode("tool"), encode(call)
		if emptyContent(o["content"]) {
			out["content"] = encode("")
		}
	default:
		w.src.report.unknown("role " + o.text("role"))
		return nil
	}
	return w.b.add(Message{JSON: encode(out), Sources: []string{cmp.Or(o.text("id"), id)}, At: at})
}

// assistant completes a message of the assistant, and reports whether there is anything in it.
func (w *chatWriter) assistant(o, out object) bool {
	var calls []json.RawMessage
	for _, raw := range o.list("tool_calls") {
		call := parseObject(raw)
		if call == nil {
			w.src.report.unknown("a call that is no object")
			continue
		}
		id := call.text("id")
		if id == "" {
			w.calls++
			id = fmt.Sprintf("call_%d", w.calls)
			call["id"] = encode(id)
		}
		call["type"] = encode(cmp.Or(call.text("type"), "function"))
		w.wait(id, call.object("function").text("name"))
		calls = append(calls, encode(call))
	}
	if call := o.object("function_call"); call != nil {
		w.calls++
		id := fmt.Sprintf("call_%d", w.calls)
		w.wait(id, call.text("name"))
		calls = append(calls, encode(map[string]any{"id": id, "type": "function", "function": call}))
	}
	for _, name := range [...]string{"reasoning_content", "refusal", "audio"} {
		if v := o[name]; len(v) > 0 && string(v) != "null" {
			out[name] = v
		}
	}
	if calls != nil {
		out["tool_calls"] = encode(calls)
		return true
	}
	return !emptyContent(o["content"]) || out.has("refusal") || out.has("audio")
}

func (w *chatWriter) wait(id, tool string) {
	w.open[id] = tool
	w.order = append(w.order, id)
}

// answered returns the call that a result answers: by its id, by the name of the tool, or the oldest that waits.
func (w *chatWriter) answered(o object) string {
	id := o.text("tool_call_id")
	for i, call := range w.order {
		if id == call || id == "" && (o.text("name") == "" || o.text("name") == w.open[call]) {
			w.order = append(w.order[:i:i], w.order[i+1:]...)
			return call
		}
	}
	return ""
}
