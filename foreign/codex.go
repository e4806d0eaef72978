package foreign

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// codexTypes are the types of Codex's rows.
var codexTypes = []string{"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state",
	"token_usage_record"}

func isCodex(o object) bool {
	if o.has("timestamp", "type", "payload") {
		return slices.Contains(codexTypes, o.text("type"))
	}
	return o.has("id", "timestamp", "instructions") || o.has("record_type")
}

// injectedTexts begin the texts that Codex adds as messages of the user.
var injectedTexts = []string{"<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<INSTRUCTIONS>",
	"<permissions instructions>", "<collaboration_mode>", "<skill>", "<turn_aborted>", "<subagent_notification>",
	"<user_shell_command>"}

// codexInjected reports whether Codex itself wrote a message of the user. Since 0.171 it says so.
func codexInjected(o object) bool {
	kinds := o.object("internal_chat_message_metadata_passthrough").list("content_item_kinds")
	if len(kinds) > 0 {
		return !slices.ContainsFunc(kinds, func(k json.RawMessage) bool { return strings.HasPrefix(string(k), `"user.`) })
	}
	text := o.text("content")
	if list := o.list("content"); len(list) > 0 {
		text = parseObject(list[0]).text("text")
	}
	text = strings.TrimSpace(text)
	return slices.ContainsFunc(injectedTexts, func(begin string) bool { return strings.HasPrefix(text, begin) })
}

// codexReader reads a rollout.
type codexReader struct {
	src  *source
	w    *itemWriter
	conv Conversation
	rows []item // of the conversation, until its id and its model are known
}

// readCodex reads a rollout. The first rows say which session it is; the model comes somewhat later.
func readCodex(src *source) error {
	r := &codexReader{src: src, conv: Conversation{Metadata: map[string]string{}}}
	if err := src.each(r.row); err != nil {
		return err
	}
	if err := r.start(); err != nil {
		return err
	}
	return r.w.end()
}

// row reads a row.
func (r *codexReader) row(v *value) error {
	if r.src.bad(v) {
		return nil
	}
	o := parseObject(v.raw)
	if o == nil {
		r.src.report.unknown("a row that is no object")
		return nil
	}
	payload := o.object("payload")
	switch kind := o.text("type"); {
	case !o.has("payload") && o.has("record_type"):
		r.src.report.left(Telemetry, 1)
	case !o.has("payload") && o.has("id", "timestamp") && !o.has("type"): // before 2025-08
		r.meta(o)
	case !o.has("payload"):
		return r.item(o, v)
	case kind == "session_meta":
		r.meta(payload)
	case kind == "turn_context":
		if r.conv.Metadata["model"] == "" {
			r.conv.Metadata["model"] = payload.text("model")
		}
		r.src.report.left(Telemetry, 1)
	case kind == "compacted" || kind == "response_item" && o.object("metadata").truth("compaction_output"):
		r.src.report.left(Compaction, 1)
	case kind == "response_item":
		if payload == nil {
			r.src.report.unknown("an item that is no object")
			return nil
		}
		payload["\x00at"] = o["timestamp"]
		return r.item(payload, v)
	case slices.Contains(codexTypes, kind):
		r.src.report.left(Telemetry, 1)
	default:
		r.src.report.unknown(kind)
	}
	return nil
}

// meta reads what names the session. In a file that goes on with another one, it comes again: the first one counts.
func (r *codexReader) meta(o object) {
	r.src.report.left(Telemetry, 1)
	if r.conv.ID != "" || o.text("id") == "" {
		return
	}
	r.conv.ID, r.conv.Created = codex+"-"+o.text("id"), o.time("timestamp")
	about := r.conv.Metadata
	about["cwd"], about["version"] = o.text("cwd"), o.text("cli_version")
	about["git_branch"] = o.object("git").text("branch")
	if from := o.text("forked_from_id"); from != "" {
		about["forked_from"] = codex + "-" + from
	}
}

// codexUnknown are items without a text, which windows would show by their types only.
var codexUnknown = []string{"ghost_snapshot", "additional_tools", "configuration_update", "compaction_trigger"}

// item adds an item, or keeps it until the session is known.
func (r *codexReader) item(o object, v *value) error {
	at := parseTime(o["\x00at"])
	if at.IsZero() {
		at = o.time("timestamp")
	}
	delete(o, "\x00at")
	if kind := o.text("type"); slices.Contains(codexUnknown, kind) {
		r.src.report.left(reasonOf(kind == "compaction_trigger", Compaction, Telemetry), 1)
		return nil
	}
	it := item{raw: encode(withoutNotes(o)), o: o, id: cmp.Or(o.text("id"), fmt.Sprintf("line-%d", v.n+1)), at: at}
	if r.w != nil {
		return r.w.add(it)
	}
	if r.rows = append(r.rows, it); r.conv.ID != "" && r.conv.Metadata["model"] != "" || len(r.rows) > 64 {
		return r.start()
	}
	return nil
}

func reasonOf(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// withoutNotes returns an item without Codex's own notes, which the API does not take.
func withoutNotes(o object) object {
	out := object{}
	for name, v := range o {
		if name != "internal_chat_message_metadata_passthrough" && !(string(v) == "null" && name == "content") {
			out[name] = v
		}
	}
	return out
}

// start begins the conversation and adds the items so far.
func (r *codexReader) start() error {
	if r.w != nil {
		return nil
	}
	if r.conv.ID == "" {
		var first []byte
		if len(r.rows) > 0 {
			first = r.rows[0].raw
		}
		r.conv.ID = codex + "-" + shortHash(first)
	}
	r.w = r.src.items(r.conv)
	r.w.injected = codexInjected
	for _, it := range r.rows {
		if err := r.w.add(it); err != nil {
			return err
		}
	}
	r.rows = nil
	return nil
}
