package server

import (
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/project"
)

// nothing is the request of routes that take no body and the response of those that answer none.
type nothing struct{}

// rawBody is the request of routes whose body is not JSON; the handler finds it in raw.
type rawBody struct{}

// blob is a response that is encoded already.
type blob struct {
	contentType string
	body        []byte
	code        int // the status; 0: the route's
}

// stored is the response of routes that make a thing or change it: 201 says that it is new, 200 that it was there.
type stored[T any] struct {
	value   T
	created bool
}

func (s stored[T]) answer() (any, int) {
	if s.created {
		return s.value, http.StatusCreated
	}
	return s.value, http.StatusOK
}

func (stored[T]) described() reflect.Type { return reflect.TypeFor[T]() }

// spliced is JSON that the engine has put together by hand, in the shape of T.
type spliced[T any] []byte

func (s spliced[T]) answer() (any, int) { return blob{contentType: jsonType, body: s}, 0 }

func (spliced[T]) described() reflect.Type { return reflect.TypeFor[T]() }

// assembled is the shape of an assembled window. The engine splices stored messages into it, so this type and its parts
// only describe the answer.
type assembled struct {
	DecisionID string `json:"decision_id"`
	rendered
	Usage    windowUsage       `json:"usage"`
	Summary  *summaryUsed      `json:"summary"`
	Memories []recalledMemory  `json:"memories,omitempty"`
	Pipeline []pipelineOutcome `json:"pipeline"`
	Report   []reportRow       `json:"report,omitempty"`
}

// rendered is what goes to a provider.
type rendered struct {
	Format   string            `json:"format"`
	Messages []json.RawMessage `json:"messages,omitempty"`
	System   json.RawMessage   `json:"system,omitempty"`
	Text     string            `json:"text,omitempty"`
}

type windowUsage struct {
	Messages           uint64 `json:"messages"`
	Tokens             uint64 `json:"tokens"`
	HistoryMessages    uint64 `json:"history_messages"`
	HistoryTokens      uint64 `json:"history_tokens"`
	SystemTokens       uint64 `json:"system_tokens"`
	ConsideredMessages uint64 `json:"considered_messages"`
	ConsideredTokens   uint64 `json:"considered_tokens"`
}

type summaryUsed struct {
	Text           string    `json:"text"`
	CoversTurns    [2]uint32 `json:"covers_turns"`
	CoversMessages uint64    `json:"covers_messages,omitempty"`
	Version        uint32    `json:"version,omitempty"`
}

type recalledMemory struct {
	Key      string `json:"key"`
	Version  int    `json:"version"`
	Category string `json:"category"`
	Injected bool   `json:"injected"`
}

type pipelineOutcome struct {
	Policy     string    `json:"policy"`
	Version    int       `json:"version"`
	Digest     string    `json:"digest"`
	Fuel       uint64    `json:"fuel"`
	DurationUS uint64    `json:"duration_us"`
	Outcome    string    `json:"outcome"`
	Detail     string    `json:"detail,omitempty"`
	Log        []logLine `json:"log,omitempty"`
}

type logLine struct {
	Level   string `json:"level"`
	Message string `json:"message"`
}

// reportRow tells what became of a message. Count and Turns belong to the row of what is older than the window
// considers.
type reportRow struct {
	MessageID    *string   `json:"message_id,omitempty"`
	Turn         *uint32   `json:"turn,omitempty"`
	Action       string    `json:"action"`
	Policy       string    `json:"policy,omitempty"`
	ReasonCode   string    `json:"reason_code"`
	Reason       string    `json:"reason,omitempty"`
	TokensBefore uint32    `json:"tokens_before,omitempty"`
	TokensAfter  uint32    `json:"tokens_after,omitempty"`
	Count        uint64    `json:"count,omitempty"`
	Turns        [2]uint32 `json:"turns,omitzero"`
}

// decision is the shape of an explained window.
type decision struct {
	DecisionID string            `json:"decision_id"`
	SessionID  string            `json:"session_id"`
	CreatedAt  time.Time         `json:"created_at"`
	Revision   uint64            `json:"revision"`
	Turns      uint32            `json:"turns"`
	WindowHash string            `json:"window_hash"`
	Format     string            `json:"format,omitempty"`
	Usage      windowUsage       `json:"usage"`
	Pipeline   []pipelineOutcome `json:"pipeline"`
	Settings   project.Settings  `json:"settings"`
	Request    json.RawMessage   `json:"request"`
	Summary    *summaryUsed      `json:"summary"`
	Memories   []recalledMemory  `json:"memories,omitempty"`
	Report     *[]reportRow      `json:"report"`
	Purged     string            `json:"purged,omitempty"`
}

// replay is the shape of a window that was computed again.
type replay struct {
	Equal      bool     `json:"equal"`
	DecisionID string   `json:"decision_id"`
	Window     rendered `json:"window"`
}

// policyRun is the shape of a window that one version of a policy made of a transcript that is stored nowhere.
type policyRun struct {
	Policy  string `json:"policy"`
	Version int    `json:"version"`
	Fuel    uint64 `json:"fuel"`
	rendered
	Usage    windowUsage       `json:"usage"`
	Summary  *summaryUsed      `json:"summary"`
	Pipeline []pipelineOutcome `json:"pipeline"`
	Report   []reportRow       `json:"report"`
	Skipped  []chat.Skipped    `json:"skipped,omitempty"`
}
