package recall

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/index"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Query asks for memories or messages. All is optional, but a query without words needs a time bound or "*".
type Query struct {
	Query     string         `json:"query,omitempty"`
	Limit     int            `json:"limit,omitempty"` // 0: 5
	Category  string         `json:"category,omitempty"`
	Tags      []string       `json:"tags,omitempty"` // all of them
	Source    string         `json:"source,omitempty"`
	Since     string         `json:"since,omitempty"` // inclusive: RFC 3339, or a day
	Until     string         `json:"until,omitempty"` // inclusive; a day is meant to its end
	SessionID string         `json:"session_id,omitempty"`
	Scope     string         `json:"scope,omitempty"` // memories (default), transcript or both
	Viewer    *access.Viewer `json:"viewer,omitempty"`
}

// Hit is one memory or message found, with its score explained.
type Hit struct {
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
	Why        Why       `json:"why"`
	CreatedAt  time.Time `json:"created_at"`
	Importance float64   `json:"importance,omitempty"`
}

// Why explains a score: its parts add up to it.
type Why struct {
	// Terms are the query's words that the document itself holds, Neighbours what the documents beside it add.
	Terms      []Term  `json:"terms"`
	Neighbours float64 `json:"neighbours"`
	Session    float64 `json:"session"`
	Date       float64 `json:"date"`
	Importance float64 `json:"importance"`
}

// Term is one word's part of a score.
type Term struct {
	Term   string  `json:"term"`
	Weight float64 `json:"weight"`
}

// Result is what was found, best first.
type Result struct {
	Data []Hit `json:"data"`
	// Incomplete says that hits may be missing: UnindexedMessages of the transcript were not searched yet, and asking
	// again later finds them; or there is more than one answer takes, or damage.
	Incomplete        bool   `json:"incomplete,omitempty"`
	UnindexedMessages uint64 `json:"unindexed_messages,omitempty"`

	bytes int // of content
}

// add takes a hit into the answer, unless that is full: then it says that hits are missing.
func (r *Result) add(h Hit) bool {
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
	DefaultRecallLimit = 5
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

// request is a query that was read.
type request struct {
	*Query
	words    bool // it has some; else the most recent are asked for
	memories memory.Filter
	filter   rank.Filter
	viewer   string // delegation; "": sees all
}

// check reads a query and refuses what cannot be meant.
func (q *Query) check() (*request, error) {
	r := &request{Query: q, memories: memory.Filter{Category: q.Category, Tags: q.Tags, Source: q.Source,
		SessionID: q.SessionID, Since: q.Since, Until: q.Until}}
	if err := r.memories.Check(); err != nil {
		return nil, err
	}
	if q.SessionID != "" {
		if err := ident.CheckID("session_id", q.SessionID); err != nil {
			return nil, err
		}
	}
	if q.Viewer != nil && q.Viewer.DelegationID != nil {
		r.viewer = *q.Viewer.DelegationID
		if err := ident.CheckID("viewer.delegation_id", r.viewer); err != nil {
			return nil, err
		}
	}
	switch q.Scope {
	case "":
		q.Scope = scopeMemories
	case scopeMemories, scopeTranscript, scopeBoth:
	default:
		return nil, fault.InvalidField("scope", "invalid_value", "must be memories, transcript or both")
	}
	if q.Limit == 0 {
		q.Limit = DefaultRecallLimit
	}
	if q.Limit < 1 || q.Limit > maxRecallLimit {
		return nil, fault.InvalidField("limit", "out_of_range", "must be from 1 to %d", maxRecallLimit)
	}
	if len(q.Query) > maxRecallQuery {
		return nil, fault.InvalidField("query", "too_long", "must be at most %d bytes; ask with the words that matter",
			maxRecallQuery)
	}
	text := strings.TrimSpace(q.Query)
	if r.words = text != "" && text != "*"; !r.words && text == "" && q.Since == "" && q.Until == "" {
		return nil, fault.InvalidField("query", "query_needed",
			`give words to look for, "*" for the most recent, or a time bound (since, until)`)
	}
	r.filter = rank.Filter{Tags: q.Tags, Group: q.Source, Session: q.SessionID}
	if q.Category != "" {
		r.filter.ByCategory, r.filter.Category = true, memory.CategoriesOfIndex[q.Category]
	}
	if r.memories.From != nil {
		r.filter.Since = *r.memories.From
	}
	if r.memories.To != nil {
		r.filter.Until = *r.memories.To
	}
	return r, nil
}

// Recall finds memories and messages, best first; without words in the query the most recent first.
func (svc *Service) Recall(ctx context.Context, c access.Caller, project string, q Query) (Result, error) {
	out := Result{Data: []Hit{}}
	r, err := q.check()
	if err != nil {
		return out, err
	}
	p, _, _, err := svc.projects.Read(ctx, c, project, nil)
	if err != nil {
		return out, err
	}
	if q.Scope != scopeTranscript {
		find := svc.findMemories
		if !r.words {
			find = svc.recentMemories
		}
		if err := find(ctx, c, p, r, &out); err != nil {
			return out, err
		}
	}
	// Messages have neither category nor source.
	if q.Scope != scopeMemories && q.Category == "" && q.Source == "" {
		find := svc.findMessages
		if !r.words {
			find = svc.recentMessages
		}
		if err := find(ctx, c, p, r, &out); err != nil {
			return out, err
		}
	}
	if q.Scope == scopeBoth {
		slices.SortStableFunc(out.Data, func(a, b Hit) int {
			if !r.words {
				return b.CreatedAt.Compare(a.CreatedAt)
			}
			return cmp.Compare(b.Score, a.Score)
		})
	}
	out.Data = out.Data[:min(len(out.Data), q.Limit)]
	return out, nil
}

func memoryHit(m *memory.Memory) Hit {
	h := Hit{Kind: "memory", Key: m.Key, Content: m.Content, Category: m.Category, Tags: m.Tags, Source: m.Source,
		CreatedAt: m.UpdatedAt, Importance: m.Importance, Why: Why{Terms: []Term{}}}
	if m.SessionID != nil {
		h.SessionID = *m.SessionID
	}
	if h.Tags == nil {
		h.Tags = []string{}
	}
	return h
}

// findMemories finds memories by words.
func (svc *Service) findMemories(ctx context.Context, c access.Caller, p *project.Record, r *request, out *Result) error {
	q := &index.Query{Space: records.RecallMemories, Text: r.Query.Query, Filter: r.filter, Limit: r.Limit}
	q.Filter.Stream = index.StreamOf(r.SessionID)
	hits, incomplete, err := svc.index.Search(ctx, c.Tenant, p.Incarnation, q)
	if err != nil {
		return err
	}
	out.Incomplete = out.Incomplete || incomplete
	now := svc.db.Now()
	for some := range slices.Chunk(hits, memoriesAtOnce) {
		keys := make([]string, len(some))
		for i, h := range some {
			keys[i] = h.Doc.ID
		}
		recs, err := svc.memories.Read(ctx, c.Tenant, p, keys)
		if err != nil {
			return err
		}
		for i, rec := range recs {
			if rec == nil || rec.Expired(now) || !r.memories.Matches(rec.Summary(), now) {
				continue // it changed meanwhile
			}
			h := memoryHit(&rec.Memory)
			if h.Score, h.Why = some[i].Score, whyOf(some[i].Why); !out.add(h) {
				return nil
			}
		}
	}
	return nil
}

func whyOf(y rank.Why) Why {
	out := Why{Terms: []Term{}, Neighbours: y.Neighbours, Session: y.Session, Date: y.Date,
		Importance: y.Importance}
	for _, t := range y.Terms {
		out.Terms = append(out.Terms, Term{t.Word, t.Share})
	}
	return out
}
