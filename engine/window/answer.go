package window

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/decision"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/project"
)

// Answer is a window as answered. Its Rendered members are put together by hand, because messages are stored JSON that
// is copied and never encoded again; the rest is encoded.
type Answer struct {
	DecisionID string `json:"decision_id"` // null where the store had no space for the decision
	Rendered
	Session decision.Session `json:"session"`
	Explained
	Asked
}

// Rendered is what goes to a provider. Text is there in the format text alone, and Messages are empty then.
type Rendered struct {
	Format   string            `json:"format"`
	Messages []json.RawMessage `json:"messages,omitempty"`
	System   json.RawMessage   `json:"system,omitempty"`
	Text     string            `json:"text,omitempty"`
}

// Explained is what an answer always says of its window.
type Explained struct {
	Usage    decision.Usage  `json:"usage"`
	Summary  *SummaryUsed    `json:"summary"`           // null: the window shows none
	Pipeline []decision.Step `json:"pipeline"`          // how each step ended
	Skipped  []chat.Skipped  `json:"skipped,omitempty"` // messages that are no part of a conversation
}

// Asked is what an answer says where the request asks for it.
type Asked struct {
	Memories []RecalledMemory `json:"memories,omitzero"`
	Report   []ReportRow      `json:"report,omitzero"`
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
	Key      string `json:"key"`
	Version  int    `json:"version"`
	Category string `json:"category"`
	Injected bool   `json:"injected"`
}

// Explanation is a stored decision with its report, which is computed again.
type Explanation struct {
	DecisionID string           `json:"decision_id"`
	SessionID  string           `json:"session_id"`
	CreatedAt  time.Time        `json:"created_at"`
	Revision   uint64           `json:"revision"`
	Turns      uint32           `json:"turns"`
	WindowHash string           `json:"window_hash"`
	Format     string           `json:"format,omitempty"`
	Usage      decision.Usage   `json:"usage"`
	Pipeline   []decision.Step  `json:"pipeline"`
	Settings   project.Settings `json:"settings"`
	Request    json.RawMessage  `json:"request"`
	Summary    *SummaryUsed     `json:"summary"`
	Memories   []RecalledMemory `json:"memories,omitzero"`
	Report     *[]ReportRow     `json:"report"`           // null: an input is purged
	Purged     string           `json:"purged,omitempty"` // which
}

// Replayed is a window that was computed again. Equal says that it is the one that was answered.
type Replayed struct {
	Equal      bool     `json:"equal"`
	DecisionID string   `json:"decision_id"`
	Window     Rendered `json:"window"`
}

// explained says of a rendered window what every answer says.
func (a *assembly) explained() Explained {
	return Explained{Usage: a.usage(), Summary: a.shownSummary(), Pipeline: a.result.steps, Skipped: a.skipped}
}

// onDemand says of a rendered window what the request asks for.
func (a *assembly) onDemand() Asked {
	out := Asked{Memories: a.shownMemories()}
	if a.request.Explain {
		out.Report = a.report()
	}
	return out
}

// usage is what a rendered window takes.
func (a *assembly) usage() decision.Usage {
	u := decision.Usage{Messages: a.result.rendered, Tokens: a.result.tokens + uint64(a.limits.systemTokens),
		HistoryMessages: uint64(a.result.messages), SystemTokens: uint64(a.limits.systemTokens),
		ConsideredMessages: uint64(len(a.rows)), ConsideredTokens: a.table.tokens}
	for i := range a.result.items {
		if it := &a.result.items[i]; it.Role != plan.RoleSystem {
			u.HistoryTokens += uint64(it.Tokens)
		}
	}
	return u
}

// appendObject ends a JSON object that members were appended to by hand: it appends those of v, of which there must be
// one, and the closing brace.
func appendObject(dst []byte, v any) ([]byte, error) {
	at := len(dst)
	b := bytes.NewBuffer(dst)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false) // windows are for models
	if err := enc.Encode(v); err != nil {
		return dst, err
	}
	dst = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	dst[at] = ',' // in place of the opening brace
	return dst, nil
}
