package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/rank"
)

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
	// Incomplete says that hits may be missing: UnindexedMessages of the transcript were not searched yet, and asking
	// again later finds them; or there is more than one answer takes, or damage.
	Incomplete        bool   `json:"incomplete,omitempty"`
	UnindexedMessages uint64 `json:"unindexed_messages,omitempty"`

	bytes int // of content
}

// add takes a hit into the answer, unless that is full: then it says that hits are missing.
func (r *RecallResult) add(h RecallHit) bool {
	if r.bytes+len(h.Content) > maxRecallBytes && len(r.Data) > 0 {
		r.Incomplete = true
		return false
	}
	r.bytes += len(h.Content)
	r.Data = append(r.Data, h)
	return true
}

// The limits of a query.
const (
	defaultRecallLimit = 5
	maxRecallLimit     = 100
	maxRecallQuery     = 32 << 10 // bytes
	maxRecallBytes     = 8 << 20  // of content in one answer
	memoriesAtOnce     = 8        // read, of which each may have a mebibyte
)

// Scopes of a query.
const (
	scopeMemories   = "memories"
	scopeTranscript = "transcript"
	scopeBoth       = "both"
)

// recallRequest is a query that was read.
type recallRequest struct {
	*RecallQuery
	words    bool // it has some; else the most recent are asked for
	memories MemoryFilter
	filter   rank.Filter
	viewer   string // delegation; "": sees all
}

// check reads a query and refuses what cannot be meant.
func (q *RecallQuery) check() (*recallRequest, error) {
	r := &recallRequest{RecallQuery: q, memories: MemoryFilter{Category: q.Category, Tags: q.Tags, Source: q.Source,
		SessionID: q.SessionID, Since: q.Since, Until: q.Until}}
	if err := r.memories.check(); err != nil {
		return nil, err
	}
	if q.SessionID != "" {
		if err := checkID("session_id", q.SessionID); err != nil {
			return nil, err
		}
	}
	if q.Viewer != nil && q.Viewer.DelegationID != nil {
		r.viewer = *q.Viewer.DelegationID
		if err := checkID("viewer.delegation_id", r.viewer); err != nil {
			return nil, err
		}
	}
	switch q.Scope {
	case "":
		q.Scope = scopeMemories
	case scopeMemories, scopeTranscript, scopeBoth:
	default:
		return nil, invalidField("scope", "invalid_value", "must be memories, transcript or both")
	}
	if q.Limit == 0 {
		q.Limit = defaultRecallLimit
	}
	if q.Limit < 1 || q.Limit > maxRecallLimit {
		return nil, invalidField("limit", "out_of_range", "must be from 1 to %d", maxRecallLimit)
	}
	if len(q.Query) > maxRecallQuery {
		return nil, invalidField("query", "too_long", "must be at most %d bytes; ask with the words that matter",
			maxRecallQuery)
	}
	text := strings.TrimSpace(q.Query)
	if r.words = text != "" && text != "*"; !r.words && text == "" && q.Since == "" && q.Until == "" {
		return nil, invalidField("query", "query_needed",
			`give words to look for, "*" for the most recent, or a time bound (since, until)`)
	}
	r.filter = rank.Filter{Tags: q.Tags, Group: q.Source, Session: q.SessionID}
	if q.Category != "" {
		r.filter.ByCategory, r.filter.Category = true, categoriesOfIndex[q.Category]
	}
	if r.memories.since != nil {
		r.filter.Since = *r.memories.since
	}
	if r.memories.until != nil {
		r.filter.Until = *r.memories.until
	}
	return r, nil
}

// Recall finds memories and messages, best first; without words in the query the most recent first.
func (e *Engine) Recall(ctx context.Context, c Caller, project string, q RecallQuery) (RecallResult, error) {
	out := RecallResult{Data: []RecallHit{}}
	r, err := q.check()
	if err != nil {
		return out, err
	}
	p, _, _, err := e.readProject(ctx, c, project, nil)
	if err != nil {
		return out, err
	}
	if q.Scope != scopeTranscript {
		find := e.recallMemories
		if !r.words {
			find = e.recentMemories
		}
		if err := find(ctx, c, p, r, &out); err != nil {
			return out, err
		}
	}
	// Messages have neither category nor source.
	if q.Scope != scopeMemories && q.Category == "" && q.Source == "" {
		find := e.recallMessages
		if !r.words {
			find = e.recentMessages
		}
		if err := find(ctx, c, p, r, &out); err != nil {
			return out, err
		}
	}
	if q.Scope == scopeBoth {
		slices.SortStableFunc(out.Data, func(a, b RecallHit) int {
			if !r.words {
				return b.CreatedAt.Compare(a.CreatedAt)
			}
			return cmp.Compare(b.Score, a.Score)
		})
	}
	out.Data = out.Data[:min(len(out.Data), q.Limit)]
	return out, nil
}

func memoryHit(m *Memory) RecallHit {
	h := RecallHit{Kind: "memory", Key: m.Key, Content: m.Content, Category: m.Category, Tags: m.Tags, Source: m.Source,
		CreatedAt: m.UpdatedAt, Importance: m.Importance, Why: RecallWhy{Terms: []RecallTerm{}}}
	if m.SessionID != nil {
		h.SessionID = *m.SessionID
	}
	if h.Tags == nil {
		h.Tags = []string{}
	}
	return h
}

// recallMemories finds memories by words.
func (e *Engine) recallMemories(ctx context.Context, c Caller, p *project, r *recallRequest, out *RecallResult) error {
	q := &query{space: recallMemories, text: r.Query, filter: r.filter, limit: r.Limit}
	q.filter.Stream = streamOf(r.SessionID)
	hits, incomplete, err := e.search(ctx, c.Tenant, p.Incarnation, q)
	if err != nil {
		return err
	}
	out.Incomplete = out.Incomplete || incomplete
	now := e.now()
	for some := range slices.Chunk(hits, memoriesAtOnce) {
		keys := make([]string, len(some))
		for i, h := range some {
			keys[i] = h.doc.ID
		}
		recs, err := e.readMemories(ctx, c.Tenant, p, keys)
		if err != nil {
			return err
		}
		for i, rec := range recs {
			if rec == nil || rec.expired(now) || !r.memories.matches(rec.summary(), now) {
				continue // it changed meanwhile
			}
			h := memoryHit(&rec.Memory)
			if h.Score, h.Why = some[i].score, whyOf(some[i].why); !out.add(h) {
				return nil
			}
		}
	}
	return nil
}

func whyOf(y rank.Why) RecallWhy {
	out := RecallWhy{Terms: []RecallTerm{}, Neighbours: y.Neighbours, Session: y.Session, Date: y.Date,
		Importance: y.Importance}
	for _, t := range y.Terms {
		out.Terms = append(out.Terms, RecallTerm{t.Word, t.Share})
	}
	return out
}
