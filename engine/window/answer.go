package window

import (
	"encoding/json"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/prompt"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// Answer is the response to a request for a window. Messages are copied into a buffer as they are stored and never
// encoded again: Shown returns them, and JSON returns the whole response. Of Rendered, only Format is set.
type Answer struct {
	// DecisionID is null if the decision is not stored, because of the project's settings or because the store had no space.
	// It is omitted if the request has record false.
	DecisionID string      `json:"decision_id,omitzero"`
	ID         decision.ID `json:"-"` // DecisionID, also if only a call's row is stored; zero if the store had no space
	Rendered
	Session decision.Session `json:"session"`
	Explained
	Asked
	Audio bool `json:"-"` // some of the messages have sound

	json     []byte // the JSON up to and including Rendered
	rendered rendered
}

// rendered points to the parts of the window within the JSON of an answer.
type rendered struct {
	audio    bool
	messages []byte // a JSON list; nil in the format text
	system   []byte // Anthropic's system prompt; nil if there is none
}

// Shown returns the messages of the window and Anthropic's system prompt, which is nil if there is none. They point
// into the buffer of the answer.
func (a *Answer) Shown() (messages []json.RawMessage, system json.RawMessage) {
	messages = make([]json.RawMessage, 0, a.Usage.Messages)
	for from, to := range rawjson.Elements(a.rendered.messages) {
		messages = append(messages, a.rendered.messages[from:to:to])
	}
	return messages, a.rendered.system
}

// JSON returns the whole response, in the same buffer. It may be called once.
func (a *Answer) JSON() ([]byte, error) {
	dst := append(a.json, `,"session":{"exists":`...)
	dst = append(strconv.AppendBool(dst, a.Session.Exists), '}')
	dst, err := a.Explained.append(dst, a.Memories)
	if err == nil && a.Report != nil {
		dst = appendReport(dst, a.Report)
	}
	return dst, err
}

// Buffer returns the memory of an answer that is no longer needed, for reuse.
func (a *Answer) Buffer() []byte { return a.json[:0] }

// Rendered is the part of a window that goes to a provider. In the format text it has a Text and no Messages.
type Rendered struct {
	Format   string            `json:"format"`
	Messages []json.RawMessage `json:"messages,omitempty"`
	System   json.RawMessage   `json:"system,omitempty"`
	Text     string            `json:"text,omitempty"`
}

// Explained has the facts about a window that every response includes.
type Explained struct {
	Usage    decision.Usage       `json:"usage"`
	Cut      bool                 `json:"cut"`                // it does not begin with all history of the window before
	Thinking *prompt.ThinkingLeft `json:"thinking,omitempty"` // nil if all thinking is shown unchanged
	Summary  *SummaryUsed         `json:"summary"`            // null: the window shows none
	Pipeline []decision.Step      `json:"pipeline"`           // how each step ended
	Skipped  []chat.Skipped       `json:"skipped,omitempty"`  // messages that are not part of a conversation
}

// Asked has the parts of a response that are included only on request.
type Asked struct {
	Memories []RecalledMemory     `json:"memories,omitzero"`
	Report   []decision.ReportRow `json:"report,omitzero"`
}

// SummaryUsed is the running summary that a window includes.
type SummaryUsed struct {
	Text           string    `json:"text"`
	CoversTurns    [2]uint32 `json:"covers_turns"`
	CoversMessages uint64    `json:"covers_messages,omitempty"`
	Version        uint32    `json:"version,omitempty"`
}

// RecalledMemory is a memory that was found for a window. Injected means that the window includes it. Category is empty if
// the memory was forgotten since.
type RecalledMemory struct {
	Key       string   `json:"key"`
	Namespace []string `json:"namespace,omitempty"`
	Version   int      `json:"version"`
	Category  string   `json:"category,omitempty"`
	Injected  bool     `json:"injected"`
}

// Replayed is a recomputed window. Equal means that it equals the original.
type Replayed struct {
	Equal      bool     `json:"equal"`
	DecisionID string   `json:"decision_id"`
	Window     Rendered `json:"window"`
}

// explained returns the facts that every response includes about a rendered window.
func (a *assembly) explained() Explained {
	return Explained{Usage: a.usage(), Cut: a.result.compared.Cut, Thinking: a.sheet.Left(), Summary: a.shownSummary(), Pipeline: a.result.steps, Skipped: a.skipped}
}

// append adds the members of e to a JSON object that has members already, adds memories if they are not nil, and closes
// the object.
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

// usage returns the token and message counts of a rendered window.
func (a *assembly) usage() decision.Usage {
	u := decision.Usage{Messages: a.result.rendered, Tokens: a.result.tokens + uint64(a.limits.systemTokens),
		HistoryMessages: uint64(a.result.messages), SystemTokens: uint64(a.limits.systemTokens),
		Prefix: a.shared(), ConsideredMessages: uint64(len(a.rows)), ConsideredTokens: a.table.tokens}
	u.Count(a.result.items)
	if u.Messages > 0 {
		u.Tokens += uint64(a.limits.primer)
	}
	shown, ofPending := a.memories.Tokens(a.result.items)
	u.HistoryTokens -= shown
	u.Parts = decision.PartsOf(a.result.items, u.Tokens, decision.Bounds{System: uint64(a.limits.systemTokens),
		Tools: uint64(a.limits.toolTokens), Window: uint64(a.limits.window), Reserve: uint64(a.limits.reserve),
		Budget: uint64(a.limits.budget)})
	u.Parts.Memories += shown
	u.Parts.Pending -= ofPending
	u.Parts.History -= shown - ofPending
	return u
}

// appendReport adds a report to a JSON object that was just closed; nil becomes null.
func appendReport(dst []byte, rows []decision.ReportRow) []byte {
	dst = append(dst[:len(dst)-1], `,"report":`...)
	if rows == nil {
		return append(dst, "null}"...)
	}
	return append(decision.AppendReport(dst, rows), '}')
}
