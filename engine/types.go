package engine

import (
	"encoding/json"
	"time"
)

// Page bounds one listing. Limit 0 is the default of 50; Cursor is what an earlier page returned.
type Page struct {
	Limit  int
	Cursor string
}

// List is one page of a listing.
type List[T any] struct {
	Data       []T     `json:"data"`
	HasMore    bool    `json:"has_more"`
	NextCursor *string `json:"next_cursor"`
}

// TenantSpec asks for a tenant.
type TenantSpec struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

// Tenant is the isolation boundary.
type Tenant struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// TenantCreated answers a TenantSpec. AdminKey is shown this once.
type TenantCreated struct {
	ID       string `json:"id"`
	AdminKey string `json:"admin_key"`
}

// KeySpec asks for an API key.
type KeySpec struct {
	Name          string     `json:"name"`
	Role          string     `json:"role"`
	Agent         string     `json:"agent,omitempty"`
	PreferredName string     `json:"preferred_name,omitempty"`
	Projects      []string   `json:"projects,omitempty"`
	ExpiresAt     *time.Time `json:"expires_at,omitempty"`
}

// Key describes an API key without its secret.
type Key struct {
	ID string `json:"id"`
	KeySpec
	CreatedAt time.Time  `json:"created_at"`
	RotatedAt *time.Time `json:"rotated_at,omitempty"`
	// LastUsedAt is to the minute or so; nil until it is used. It is not part of the key's own record.
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
}

// ConversationStats say how much history a project has gathered.
type ConversationStats struct {
	ProjectID string     `json:"project_id"`
	Total     int        `json:"total"`
	OldestAt  *time.Time `json:"oldest_at"` // when the oldest conversation began; nil where there is none
}

// PurgeSpec asks for a project's conversations to be deleted for good.
type PurgeSpec struct {
	ProjectID     string
	OlderThanDays int  // since the last activity; 0: all conversations
	DryRun        bool // count only
}

// Purged answers a PurgeSpec. With DryRun it says what would have been deleted.
type Purged struct {
	DeletedConversations int  `json:"deleted_conversations"`
	OlderThanDays        int  `json:"older_than_days"`
	DryRun               bool `json:"dry_run"`
}

// RetentionRun says what a run of the daily job removed, by kind of data.
type RetentionRun struct {
	Removed  map[string]int `json:"removed"`
	Finished bool           `json:"finished"` // false: there is more, and it goes on in the background
}

// KeyCreated carries a new secret, shown this once.
type KeyCreated struct {
	ID  string `json:"id"`
	Key string `json:"key"`
	// PreviousValidUntil is when the secret that a rotation replaced stops working.
	PreviousValidUntil *time.Time `json:"previous_valid_until,omitempty"`
}

// ProjectSpec is what a client may say of a project.
type ProjectSpec struct {
	Name string `json:"name,omitempty"`
}

// Project is one configured agent.
type Project struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// SessionSpec asks for a session.
type SessionSpec struct {
	ID    string `json:"id,omitempty"`
	Kind  string `json:"kind,omitempty"` // chat (default) or background
	Agent string `json:"agent,omitempty"`
	Title string `json:"title,omitempty"`
}

// Session is one conversation, as listed.
type Session struct {
	ID              string     `json:"id"`
	Kind            string     `json:"kind"`
	Agent           string     `json:"agent"`
	Title           string     `json:"title"`
	Turns           uint32     `json:"turns"`
	Messages        uint64     `json:"messages"`
	Tokens          uint64     `json:"tokens"`
	Summary         *string    `json:"summary"`
	SummarizedCount uint64     `json:"summarized_count"`
	CreatedAt       *time.Time `json:"created_at"`
	LastActivityAt  *time.Time `json:"last_activity_at"`
}

// Message is one stored message, as listed. Content is its text; Message is its JSON as posted.
type Message struct {
	ID         string          `json:"id"`
	Turn       uint32          `json:"turn"`
	Role       string          `json:"role"`
	Type       string          `json:"type"`
	Agent      string          `json:"agent"`
	Delegation *string         `json:"delegation_id"`
	Tags       []string        `json:"tags,omitempty"`
	Tokens     uint32          `json:"tokens"`
	CreatedAt  time.Time       `json:"created_at"`
	Format     string          `json:"format"`
	Content    string          `json:"content"`
	Message    json.RawMessage `json:"message"`
	Damaged    bool            `json:"damaged,omitempty"`
}

// TurnRequest is what one run of an agent added.
type TurnRequest struct {
	SessionID    string            `json:"session_id,omitempty"`
	Agent        string            `json:"agent,omitempty"`
	DelegationID *string           `json:"delegation_id,omitempty"`
	Format       string            `json:"format,omitempty"`
	Messages     []json.RawMessage `json:"messages"`
}

// TurnResponse acknowledges a committed turn.
type TurnResponse struct {
	SessionID string        `json:"session_id"`
	Turn      uint32        `json:"turn"`
	Revision  uint64        `json:"revision"`
	Tokens    uint64        `json:"tokens"`
	Messages  []TurnMessage `json:"messages"`
	Skipped   []Skipped     `json:"skipped"`
}

// TurnMessage is one message of a committed turn.
type TurnMessage struct {
	ID     string `json:"id"`
	Role   string `json:"role"`
	Tokens uint32 `json:"tokens"`
}

// Skipped says which posted message was not stored, and why.
type Skipped struct {
	Index int    `json:"index"`
	Code  string `json:"code"`
}

// Settings are a project's defaults for assembling.
type Settings struct {
	SessionHistoryDepth       int            `json:"session_history_depth"`
	HistoryMaxMessages        int            `json:"history_max_messages"`
	HistoryMaxTokens          int            `json:"history_max_tokens"`
	SummaryEnabled            bool           `json:"summary_enabled"`
	SummaryThreshold          int            `json:"summary_threshold"`
	SummaryKeepLast           int            `json:"summary_keep_last"`
	SummaryModel              string         `json:"summary_model"`
	SummaryMode               string         `json:"summary_mode"`
	SummaryWaitMS             int            `json:"summary_wait_ms"`
	ConversationRetentionDays *int           `json:"conversation_retention_days"`
	DailyMemoryDays           int            `json:"daily_memory_days"`
	DecisionRetentionDays     int            `json:"decision_retention_days"`
	Tokenizer                 string         `json:"tokenizer"`
	Pipeline                  []PipelineStep `json:"pipeline"`
}

// PipelineStep names a policy (its live version, or name@version) and its config.
type PipelineStep struct {
	Policy  string          `json:"policy"`
	Config  json.RawMessage `json:"config,omitempty"`
	OnError string          `json:"on_error,omitempty"` // "" or "skip": go on; "error": refuse the request
}

// ContextRequest asks what the model should see now. Pointers tell "not said" from zero.
type ContextRequest struct {
	SessionID   string            `json:"session_id,omitempty"`
	Viewer      Viewer            `json:"viewer"`
	Budget      Budget            `json:"budget"`
	System      string            `json:"system,omitempty"`
	Pending     []json.RawMessage `json:"pending,omitempty"`
	Memories    *MemoriesRequest  `json:"memories,omitempty"`
	Pipeline    []PipelineStep    `json:"pipeline,omitempty"`
	Format      string            `json:"format,omitempty"`
	ToolResults string            `json:"tool_results,omitempty"`
	Explain     bool              `json:"explain,omitempty"`
}

// Viewer is the agent that the window is for.
type Viewer struct {
	Agent        string  `json:"agent,omitempty"`
	DelegationID *string `json:"delegation_id,omitempty"`
}

// Budget bounds a window; 0 is no bound, nil the project's setting.
type Budget struct {
	MaxMessages   *int `json:"max_messages,omitempty"`
	MaxTokens     *int `json:"max_tokens,omitempty"`
	ContextWindow *int `json:"context_window,omitempty"`
	ReserveTokens *int `json:"reserve_tokens,omitempty"`
}

// MemoriesRequest asks for long-term memories to be injected. Without a Query they are looked for by the newest user
// message that the viewer may see.
type MemoriesRequest struct {
	Query string `json:"query,omitempty"`
	Limit int    `json:"limit,omitempty"` // 1 to 100; 0: 5
}

// SessionFile is a session's transcript on its own: state/sessions/<session_id>.json.
type SessionFile struct {
	Version int          `json:"version"` // 1
	Session SessionSpec  `json:"session"`
	Created time.Time    `json:"created_at"`
	Turns   []FileTurn   `json:"turns"`
	Summary *FileSummary `json:"summary,omitempty"`
}

// FileSummary is the running summary of a SessionFile.
type FileSummary struct {
	Text  string    `json:"text"`
	Turns [2]uint32 `json:"covers_turns"`
	// Covers is how many of the file's first messages are behind it; Count those of them that it covers: all but
	// delegations'.
	Covers uint64 `json:"covers"`
	Count  uint64 `json:"covers_messages"`
	Model  string `json:"model,omitempty"`
	Prompt string `json:"prompt,omitempty"`
}

// FileTurn is one turn of a SessionFile.
type FileTurn struct {
	Turn      uint32        `json:"turn"`
	CreatedAt time.Time     `json:"created_at"`
	Messages  []FileMessage `json:"messages"`
}

// FileMessage is one message of a SessionFile: its JSON as posted, with what it took from its turn.
type FileMessage struct {
	Format     string          `json:"format"`
	Agent      string          `json:"agent,omitempty"`
	Delegation string          `json:"delegation_id,omitempty"`
	CreatedAt  time.Time       `json:"created_at"`
	Message    json.RawMessage `json:"message"`
}
