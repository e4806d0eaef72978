package recall

import (
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// The limits of a query.
const (
	DefaultLimit = 5 // hits
	maxLimit     = 100
	maxQuery     = 32 << 10 // bytes
)

// Scopes of a query.
const (
	scopeMemories   = "memories"
	scopeTranscript = "transcript"
	scopeBoth       = "both"
)

// Query asks for memories or messages. All fields are optional, but a query without words needs a time bound or "*".
type Query struct {
	Query    string   `json:"query,omitempty"`
	Limit    int      `json:"limit,omitempty"` // 0 means 5
	Category string   `json:"category,omitempty"`
	Tags     []string `json:"tags,omitempty"` // all of them
	Source   string   `json:"source,omitempty"`
	// The other fields of memory.Filter.
	Categories []string          `json:"categories,omitempty"`
	TagsAny    []string          `json:"tags_any,omitempty"`
	TagsNot    []string          `json:"tags_not,omitempty"`
	Namespace  []string          `json:"namespace,omitempty"`
	Metadata   memory.Conditions `json:"metadata,omitempty"`
	Value      memory.Conditions `json:"value,omitempty"`
	MinTrust   memory.Trust      `json:"min_trust,omitempty"`
	// MinScore leaves out hits with a lower score.
	MinScore  float64       `json:"min_score,omitempty"`
	Since     string        `json:"since,omitempty"` // inclusive: RFC 3339, or a day
	Until     string        `json:"until,omitempty"` // inclusive; a day includes all of it
	SessionID string        `json:"session_id,omitempty"`
	Scope     string        `json:"scope,omitempty"` // memories (default), transcript or both
	Viewer    *ident.Viewer `json:"viewer,omitempty"`
	// Background asks for messages of background sessions too. Those of the session in SessionID are always included.
	Background bool `json:"background,omitempty"`
	// Now is the time that relative dates such as "yesterday" refer to. If nil, it is the server's time.
	Now *time.Time `json:"now,omitempty"`
	// Reader is the session that asks. Conversation memories of other sessions are found only if the query names the
	// category or a session. If nil, no session asks, and all are found.
	Reader *string `json:"-"`
	// Alike asks for the memories whose words are most like the text, in exactly Namespace and in none below it. No model
	// is asked.
	Alike bool `json:"-"`
	// Plain says that the text was not written as a query: it has no operators.
	Plain bool `json:"-"`
}

// shows reports whether the query asks for messages of a session of that kind.
func (q *Query) shows(kind string) bool {
	return q.Background || q.SessionID != "" || kind != session.KindBackground
}

// request is a checked query.
type request struct {
	*Query
	words    bool // it has words; otherwise the most recent are returned
	memories memory.Filter
	filter   rank.Filter
	viewer   string // the viewer's delegation; "" sees all
}

// memoriesAlone reports whether the query asks for something that no message has.
func (q *Query) memoriesAlone() bool {
	return q.Category != "" || q.Source != "" || q.MinTrust != "" ||
		len(q.Categories)+len(q.Metadata)+len(q.Value) > 0
}

// checkViewer validates the viewer, and notes its delegation.
func (r *request) checkViewer() error {
	v := r.Viewer
	if v == nil {
		return nil
	}
	if err := v.CheckScope(project.MaxBudget); err != nil {
		return err
	}
	if v.Agent != "" {
		if err := ident.CheckID("viewer.agent", v.Agent); err != nil {
			return err
		}
	}
	if v.DelegationID == nil || *v.DelegationID == "" {
		return nil
	}
	r.viewer = *v.DelegationID
	return ident.CheckID("viewer.delegation_id", r.viewer)
}

// check checks a query and fills in defaults.
func (q *Query) check() (*request, error) {
	r := &request{Query: q, memories: memory.Filter{Category: q.Category, Tags: q.Tags, Source: q.Source,
		SessionID: q.SessionID, Since: q.Since, Until: q.Until, Categories: q.Categories, TagsAny: q.TagsAny,
		TagsNot: q.TagsNot, Namespace: q.Namespace, Metadata: q.Metadata, Value: q.Value, MinTrust: q.MinTrust,
		Reader: q.Reader}}
	if err := r.memories.Check(); err != nil {
		return nil, err
	}
	if q.SessionID != "" {
		if err := ident.CheckID("session_id", q.SessionID); err != nil {
			return nil, err
		}
	}
	if err := r.checkViewer(); err != nil {
		return nil, err
	}
	switch q.Scope {
	case "":
		q.Scope = scopeMemories
	case scopeMemories, scopeTranscript, scopeBoth:
	default:
		return nil, fault.InvalidField("scope", "invalid_value", "must be memories, transcript or both")
	}
	if q.Limit == 0 {
		q.Limit = DefaultLimit
	}
	if q.Limit < 1 || q.Limit > maxLimit {
		return nil, fault.InvalidField("limit", "out_of_range", "must be from 1 to %d", maxLimit)
	}
	if len(q.Query) > maxQuery {
		return nil, fault.InvalidField("query", "too_long", "must be at most %d bytes; ask with the words that matter",
			maxQuery)
	}
	text := strings.TrimSpace(q.Query)
	if r.words = text != "" && text != "*"; !r.words && text == "" && q.Since == "" && q.Until == "" {
		return nil, fault.InvalidField("query", "query_needed",
			`give words to search for, "*" for the most recent, or a time bound (since, until)`)
	}
	if !(q.MinScore >= 0) || !r.words && q.MinScore > 0 {
		return nil, fault.InvalidField("min_score", "out_of_range",
			"must not be negative, and needs words in the query: without them there are no scores")
	}
	r.filter = rank.Filter{Tags: q.Tags, TagsAny: q.TagsAny, TagsNot: q.TagsNot, Group: q.Source, Session: q.SessionID}
	for _, c := range r.memories.OfCategories() {
		r.filter.Categories = append(r.filter.Categories, memory.RankCategories[c])
	}
	if r.memories.From != nil {
		r.filter.Since = *r.memories.From
	}
	if r.memories.To != nil {
		r.filter.Until = *r.memories.To
	}
	return r, nil
}
