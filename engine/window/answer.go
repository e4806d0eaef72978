package window

import (
	"encoding/json"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/prompt"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// Answer is a window as answered. The messages are stored JSON, which is copied into a buffer and never encoded again:
// Shown gives them, and JSON the whole answer. Rendered has only its format.
type Answer struct {
	// DecisionID is null if the decision is not kept, because of the project's settings or because the store had no space,
	// and left out if the request has record false.
	DecisionID string      `json:"decision_id,omitzero"`
	ID         decision.ID `json:"-"` // DecisionID, also if only the row of a model call is kept; zero if the store had no space
	Rendered
	Session decision.Session `json:"session"`
	Explained
	Asked

	json     []byte // the beginning of the JSON, up to Rendered
	rendered rendered
}

// rendered is the window itself within the JSON of an answer.
type rendered struct {
	messages []byte // a list; nil in the format text
	system   []byte // Anthropic's system prompt; nil if there is none
}

// Shown gives the messages of the window and Anthropic's system prompt, which is nil if there is none. They lie in the
// buffer of the answer.
func (a *Answer) Shown() (messages []json.RawMessage, system json.RawMessage) {
	messages = make([]json.RawMessage, 0, a.Usage.Messages)
	for from, to := range rawjson.Elements(a.rendered.messages) {
		messages = append(messages, a.rendered.messages[from:to:to])
	}
	return messages, a.rendered.system
}

// JSON gives the whole answer, in the same buffer. It may be called once.
func (a *Answer) JSON() ([]byte, error) {
	dst := append(a.json, `,"session":{"exists":`...)
	dst = append(strconv.AppendBool(dst, a.Session.Exists), '}')
	dst, err := a.Explained.append(dst, a.Memories)
	if err == nil && a.Report != nil {
		dst = appendReport(dst, a.Report)
	}
	return dst, err
}

// Buffer is the memory of an answer that nobody needs any more.
func (a *Answer) Buffer() []byte { return a.json[:0] }

// Rendered is what goes to a provider. Text is there in the format text alone, and Messages are empty then.
type Rendered struct {
	Format   string            `json:"format"`
	Messages []json.RawMessage `json:"messages,omitempty"`
	System   json.RawMessage   `json:"system,omitempty"`
	Text     string            `json:"text,omitempty"`
}

// Explained is what an answer always says of its window.
type Explained struct {
	Usage    decision.Usage       `json:"usage"`
	Cut      bool                 `json:"cut"`                // it does not begin with all history of the window before
	Thinking *prompt.ThinkingLeft `json:"thinking,omitempty"` // nil: all thinking is shown as it was
	Summary  *SummaryUsed         `json:"summary"`            // null: the window shows none
	Pipeline []decision.Step      `json:"pipeline"`           // how each step ended
	Skipped  []chat.Skipped       `json:"skipped,omitempty"`  // messages that are no part of a conversation
}

// Asked is what an answer says where the request asks for it.
type Asked struct {
	Memories []RecalledMemory     `json:"memories,omitzero"`
	Report   []decision.ReportRow `json:"report,omitzero"`
}

// SummaryUsed is the running summary that a window shows.
type SummaryUsed struct {
	Text           string    `json:"text"`
	CoversTurns    [2]uint32 `json:"covers_turns"`
	CoversMessages uint64    `json:"covers_messages,omitempty"`
	Version        uint32    `json:"version,omitempty"`
}

// RecalledMemory is a memory that was found for a window. Injected says that the window shows it.
type RecalledMemory struct {
	Key       string   `json:"key"`
	Namespace []string `json:"namespace,omitempty"`
	Version   int      `json:"version"`
	Category  string   `json:"category"`
	Injected  bool     `json:"injected"`
}

// Replayed is a window that was computed again. Equal says that it is the one that was answered.
type Replayed struct {
	Equal      bool     `json:"equal"`
	DecisionID string   `json:"decision_id"`
	Window     Rendered `json:"window"`
}

// explained says of a rendered window what every answer says.
func (a *assembly) explained() Explained {
	return Explained{Usage: a.usage(), Cut: a.result.compared.Cut, Thinking: a.sheet.Left(), Summary: a.shownSummary(), Pipeline: a.result.steps, Skipped: a.skipped}
}

// append ends a JSON object that has members with those of e, and with memories, where they are not nil.
func (e *Explained) append(dst []byte, memories []RecalledMemory) (_ []byte, err error) {
	dst = e.Usage.Append(rawjson.AppendName(dst, "usage"))
	dst = strconv.AppendBool(rawjson.AppendName(dst, "cut"), e.Cut)
	member := func(name string, v any) {
		if err == nil {
			dst, err = rawjson.AppendJSON(rawjson.AppendName(dst, name), v)
		}
	}
	if e.Thinking != nil {
		member("thinking", e.Thinking)
	}
	if e.Summary != nil {
		member("summary", e.Summary)
	} else {
		dst = append(rawjson.AppendName(dst, "summary"), "null"...)
	}
	dst = decision.AppendSteps(rawjson.AppendName(dst, "pipeline"), e.Pipeline)
	if len(e.Skipped) > 0 {
		member("skipped", e.Skipped)
	}
	if memories != nil {
		member("memories", memories)
	}
	return append(dst, '}'), err
}

// usage is what a rendered window takes.
func (a *assembly) usage() decision.Usage {
	u := decision.Usage{Messages: a.result.rendered, Tokens: a.result.tokens + uint64(a.limits.systemTokens),
		HistoryMessages: uint64(a.result.messages), SystemTokens: uint64(a.limits.systemTokens),
		Prefix: a.shared(), ConsideredMessages: uint64(len(a.rows)), ConsideredTokens: a.table.tokens}
	u.Count(a.result.items)
	if u.Messages > 0 {
		u.Tokens += uint64(a.limits.primer)
	}
	shown, ofPending := a.shelf.Tokens(a.result.items)
	u.HistoryTokens -= shown
	u.Parts = decision.PartsOf(a.result.items, u.Tokens, decision.Bounds{System: uint64(a.limits.systemTokens),
		Tools: uint64(a.limits.toolTokens), Window: uint64(a.limits.window), Reserve: uint64(a.limits.reserve),
		Budget: uint64(a.limits.budget)})
	u.Parts.Memories += shown
	u.Parts.Pending -= ofPending
	u.Parts.History -= shown - ofPending
	return u
}

// appendReport puts a report into a JSON object that was just closed; nil is null.
func appendReport(dst []byte, rows []decision.ReportRow) []byte {
	dst = append(dst[:len(dst)-1], `,"report":`...)
	if rows == nil {
		return append(dst, "null}"...)
	}
	return append(decision.AppendReport(dst, rows), '}')
}
