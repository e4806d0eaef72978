package engine

import (
	"context"
	"time"
)

// recallDoc is what the index knows of a document.
type recallDoc struct {
	id       string // memory key
	text     string
	created  time.Time
	category string
	source   string
	session  string
	tags     []string
	// importance is from 0 to 1.
	importance float64
	expires    time.Time // zero: never
}

// RecallQuery asks for memories or messages. All is optional, but a query without words needs a time bound or "*".
type RecallQuery struct {
	Query     string   `json:"query,omitempty"`
	Limit     int      `json:"limit,omitempty"` // 0: 5
	Category  string   `json:"category,omitempty"`
	Tags      []string `json:"tags,omitempty"` // all of them
	Source    string   `json:"source,omitempty"`
	Since     string   `json:"since,omitempty"` // inclusive: RFC 3339, or a day
	Until     string   `json:"until,omitempty"` // inclusive; a day is meant to its end
	SessionID string   `json:"session_id,omitempty"`
	Scope     string   `json:"scope,omitempty"` // memories (default), transcript or both
	Viewer    *Viewer  `json:"viewer,omitempty"`
}

// RecallHit is one memory or message found, with its score explained.
type RecallHit struct {
	Kind       string    `json:"kind"` // memory or message
	Key        string    `json:"key,omitempty"`
	MessageID  string    `json:"message_id,omitempty"`
	Content    string    `json:"content"`
	Category   string    `json:"category,omitempty"`
	Tags       []string  `json:"tags"`
	Source     string    `json:"source,omitempty"`
	SessionID  string    `json:"session_id,omitempty"`
	Turn       uint32    `json:"turn,omitempty"`
	Role       string    `json:"role,omitempty"`
	Agent      string    `json:"agent,omitempty"`
	Score      float64   `json:"score"`
	Why        RecallWhy `json:"why"`
	CreatedAt  time.Time `json:"created_at"`
	Importance float64   `json:"importance,omitempty"`
}

// RecallWhy explains a score: its parts add up to it.
type RecallWhy struct {
	// Terms are the query's words that the document itself holds, Neighbours what the documents beside it add.
	Terms      []RecallTerm `json:"terms"`
	Neighbours float64      `json:"neighbours"`
	Session    float64      `json:"session"`
	Date       float64      `json:"date"`
	Importance float64      `json:"importance"`
}

// RecallTerm is one word's part of a score.
type RecallTerm struct {
	Term   string  `json:"term"`
	Weight float64 `json:"weight"`
}

// RecallResult is what was found, best first.
type RecallResult struct {
	Data []RecallHit `json:"data"`
	// Incomplete says that UnindexedMessages of the transcript were not searched yet; asking again later finds them.
	Incomplete        bool   `json:"incomplete,omitempty"`
	UnindexedMessages uint64 `json:"unindexed_messages,omitempty"`
}

// Recall finds memories and messages, best first; without words in the query the most recent first.
func (e *Engine) Recall(ctx context.Context, c Caller, project string, q RecallQuery) (RecallResult, error) {
	return RecallResult{Data: []RecallHit{}}, errorf(Unavailable, "recall_unavailable", "recall is being built")
}

// indexMemory makes a memory recallable in the batch that writes it. old is what its key held before, or nil.
func (t *tx) indexMemory(p *project, d recallDoc, old *recallDoc) error { return nil }

// unindexMemory takes a memory out of the index in the batch that removes it.
func (t *tx) unindexMemory(p *project, d recallDoc) error { return nil }
