package recall

import (
	"time"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/index"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// maxAnswer bounds the content of the hits of one answer, in bytes.
const maxAnswer = 8 << 20

// Result is what was found, best first.
type Result struct {
	Data []Hit `json:"data"`
	// Incomplete says that hits may be missing: because UnindexedMessages of the transcript were not searched yet,
	// which asking again later finds, because one answer does not take more, or because something is damaged.
	Incomplete        bool   `json:"incomplete,omitempty"`
	UnindexedMessages uint64 `json:"unindexed_messages,omitempty"`

	bytes int // of content
}

// add takes a hit into the answer. Where the answer is full it says instead that hits are missing, and gives false.
func (r *Result) add(h Hit) bool {
	if r.bytes+len(h.Content) > maxAnswer && len(r.Data) > 0 {
		r.Incomplete = true
		return false
	}
	r.bytes += len(h.Content)
	r.Data = append(r.Data, h)
	return true
}

// Hit is one memory or message found, with its score explained. Without words in the query there is no score.
type Hit struct {
	Kind       string    `json:"kind"`          // memory or message
	Key        string    `json:"key,omitempty"` // of a memory
	MessageID  string    `json:"message_id,omitempty"`
	Content    string    `json:"content"`
	Category   string    `json:"category,omitempty"`
	Tags       []string  `json:"tags"`
	Source     string    `json:"source,omitempty"`
	SessionID  string    `json:"session_id,omitempty"`
	Turn       uint32    `json:"turn,omitempty"`
	Role       string    `json:"role,omitempty"`
	Agent      string    `json:"agent,omitempty"`
	Score      float64   `json:"score"` // 1: all of the query's words are there, over and over
	Why        Why       `json:"why"`
	CreatedAt  time.Time `json:"created_at"` // of a memory: when it was changed last
	Importance float64   `json:"importance,omitempty"`
	Background bool      `json:"background,omitempty"` // it is of a background session
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

// found is the hit with its score and what explains it.
func (h Hit) found(by *index.Hit) Hit {
	h.Score = by.Score
	h.Why.Neighbours, h.Why.Session = by.Why.Neighbours, by.Why.Session
	h.Why.Date, h.Why.Importance = by.Why.Date, by.Why.Importance
	for _, t := range by.Why.Terms {
		h.Why.Terms = append(h.Why.Terms, Term{t.Word, t.Share})
	}
	return h
}

func memoryHit(m *memory.Memory) Hit {
	h := Hit{Kind: "memory", Key: m.Key, Content: m.Content, Category: m.Category, Tags: append([]string{}, m.Tags...),
		Source: m.Source, CreatedAt: m.UpdatedAt, Importance: m.Importance, Why: Why{Terms: []Term{}}}
	if m.SessionID != nil {
		h.SessionID = *m.SessionID
	}
	return h
}

func messageHit(sinc ident.Incarnation, seq uint64, sessionID string, hd *transcript.Header, m *chat.Message) Hit {
	return Hit{Kind: "message", MessageID: transcript.MessageID(sinc, seq), Content: m.Text,
		Tags: append([]string{}, hd.Tags...), SessionID: sessionID, Turn: hd.Turn, Role: chat.RoleName(hd.Role),
		Agent: hd.Agent, CreatedAt: records.TimeOf(hd.Created), Why: Why{Terms: []Term{}}}
}
