package board

import "time"

// Spec is what a client may say of a board. What is left out of it is taken away, but for Projects, which stay.
type Spec struct {
	Name string `json:"name,omitempty"`
	// RetentionDays is how long entries are kept; nil: for good.
	RetentionDays *int `json:"retention_days,omitempty"`
	// Projects are those whose keys reach the board; none: keys of the whole tenant alone.
	Projects []string `json:"projects,omitempty"`
}

// Board is memory that several agents share.
type Board struct {
	ID            string    `json:"id"`
	Name          string    `json:"name"`
	RetentionDays *int      `json:"retention_days"`
	Projects      []string  `json:"projects"`
	Entries       uint64    `json:"entries"`
	CreatedAt     time.Time `json:"created_at"`
}

// Post is an entry to be written. An entry is chat where it has the tag `chat` or IsChat, which adds the tag.
type Post struct {
	Content string   `json:"content"`
	Tags    []string `json:"tags,omitempty"`
	Source  *string  `json:"source,omitempty"`
	IsChat  *bool    `json:"is_chat,omitempty"`
}

// Entry is one entry of a board. Of a Damaged one only the id is known.
type Entry struct {
	ID        string    `json:"id"`
	BoardID   string    `json:"board_id"`
	Content   string    `json:"content"`
	Tags      []string  `json:"tags"`
	Source    *string   `json:"source"`
	IsChat    bool      `json:"is_chat"`
	CreatedAt time.Time `json:"created_at"`
	Damaged   bool      `json:"damaged,omitempty"`
}

// Filter chooses entries. The zero value chooses all.
type Filter struct {
	IsChat *bool
	Tags   []string   // it has all of them
	Text   string     // it has all of its words
	Since  *time.Time // made then or later
	Until  *time.Time // made before
}

// Query asks for one page of a board's entries. Limit 0 is 50.
type Query struct {
	Filter
	Ascending     bool // else newest first
	Limit, Offset int
}

// Page is one page of a board's entries. Total counts all that the filter chooses.
type Page struct {
	Items  []Entry `json:"items"`
	Total  uint64  `json:"total"`
	Limit  int     `json:"limit"`
	Offset int     `json:"offset"`
}

// Purge asks for entries to be deleted that are older than some days, all or those that are (not) chat.
type Purge struct {
	OlderThanDays int // 0: however young
	IsChat        *bool
}

// Purged says what a BoardPurge removed.
type Purged struct {
	DeletedEntries int `json:"deleted_entries"`
	OlderThanDays  int `json:"older_than_days"`
}

// AgentSpec is what a client may say of an agent on a board. Without Paused, that stays as it is.
type AgentSpec struct {
	DisplayName string `json:"display_name,omitempty"`
	Lead        bool   `json:"lead,omitempty"`
	Paused      *bool  `json:"paused,omitempty"`
}

// Agent is an agent that a board notifies.
type Agent struct {
	ID          string    `json:"id"`
	BoardID     string    `json:"board_id"`
	DisplayName string    `json:"display_name"`
	Lead        bool      `json:"lead"`
	Paused      bool      `json:"paused"`
	CreatedAt   time.Time `json:"created_at"`
}

// Notification tells an agent of an entry.
type Notification struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"` // chat, mention or control
	Command   string    `json:"command,omitempty"`
	BoardID   string    `json:"board_id"`
	MemoryID  string    `json:"memory_id"`
	From      string    `json:"from"`
	Snippet   string    `json:"snippet"`
	ReplyTo   string    `json:"reply_to"`
	Text      string    `json:"text"`
	CreatedAt time.Time `json:"created_at"`
	Read      bool      `json:"read"`
}

// InboxQuery asks for an agent's notifications, oldest first.
type InboxQuery struct {
	After  string // the id of a notification
	Unread bool
	Limit  int // 0 is 50
	// Base is the URL by which the reader reaches this server; replies are posted there.
	Base string
}

// InboxPage is one page of notifications. Unread counts all of the inbox.
type InboxPage struct {
	Items   []Notification `json:"items"`
	HasMore bool           `json:"has_more"`
	Unread  uint64         `json:"unread"`
}

// InboxAck says up to which notification an agent has read.
type InboxAck struct {
	UpTo string `json:"up_to"`
}

// InboxAcked says how an inbox stands.
type InboxAcked struct {
	UpTo   string `json:"up_to"`
	Unread uint64 `json:"unread"`
}

// Stats counts what is on a board.
type Stats struct {
	BoardID     string       `json:"board_id"`
	Entries     uint64       `json:"entries"`
	ChatEntries uint64       `json:"chat_entries"`
	OldestAt    *time.Time   `json:"oldest_at"`
	NewestAt    *time.Time   `json:"newest_at"`
	Agents      []AgentStats `json:"agents"`
}

// AgentStats counts an agent's notifications.
type AgentStats struct {
	Agent         string `json:"agent"`
	DisplayName   string `json:"display_name"`
	Mentions      uint64 `json:"mentions"`
	Notifications uint64 `json:"notifications"`
	Unread        uint64 `json:"unread"`
}

// Follow says where a stream of entries begins: behind the entry After, else with those made at Since or later,
// else with the next.
type Follow struct {
	After  string
	Since  *time.Time
	IsChat *bool
}

// InboxFollow says where a stream of notifications begins, as BoardFollow does.
type InboxFollow struct {
	After string
	Since *time.Time
	Base  string
}
