package recall

import (
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// maxAnswer limits the content of the hits in one response, in bytes.
const maxAnswer = 8 << 20

// Result is what was found, best first.
type Result struct {
	Data []Hit `json:"data"`
	// Incomplete says that hits may be missing: because UnindexedMessages of the transcript were not searched yet, which a
	// later query finds, because the response is full, or because something is damaged.
	Incomplete        bool   `json:"incomplete,omitempty"`
	UnindexedMessages uint64 `json:"unindexed_messages,omitempty"`
	// Vectors is "used" if vectors were searched too, and otherwise the code of why the query could not be embedded, so
	// that only words were searched. It is empty if the project has no model.
	Vectors string `json:"vectors,omitempty"`
	// Breadth is "order" or "summary" if the query was understood as a request for one.
	Breadth string `json:"breadth,omitempty"`

	bytes int // of content
}

// add adds a hit to the result. If the result is full, it marks it as incomplete and returns false.
func (r *Result) add(h Hit) bool {
	size := len(h.Content) + len(h.Value)
	if r.bytes+size > maxAnswer && len(r.Data) > 0 {
		r.Incomplete = true
		return false
	}
	r.bytes += size
	r.Data = append(r.Data, h)
	return true
}

// Hit is one memory or message that was found, with an explanation of its score. Without words in the query there is no
// score.
type Hit struct {
	Kind       string                     `json:"kind"`          // memory or message
	Key        string                     `json:"key,omitempty"` // of a memory
	Namespace  []string                   `json:"namespace,omitempty"`
	MessageID  string                     `json:"message_id,omitempty"`
	Content    string                     `json:"content"`
	Category   string                     `json:"category,omitempty"`
	Tags       []string                   `json:"tags"`
	Source     string                     `json:"source,omitempty"`
	SessionID  string                     `json:"session_id,omitempty"`
	Turn       uint32                     `json:"turn,omitempty"`
	Role       string                     `json:"role,omitempty"`
	Agent      string                     `json:"agent,omitempty"`
	Speaker    string                     `json:"speaker,omitempty"` // the name of a message's participant
	Score      float64                    `json:"score"`             // 1 if it contains all of the query's words, many times
	Why        Why                        `json:"why"`
	CreatedAt  time.Time                  `json:"created_at"`            // for a memory, when it was last changed
	OccurredAt *time.Time                 `json:"occurred_at,omitempty"` // when the content of a memory happened
	Importance float64                    `json:"importance,omitempty"`
	Trust      memory.Trust               `json:"trust,omitempty"` // of a memory
	Metadata   map[string]json.RawMessage `json:"metadata,omitempty"`
	Value      json.RawMessage            `json:"value,omitempty"`
	Background bool                       `json:"background,omitempty"` // it is from a background session
	// Duplicates is the number of further hits with the same words, which are left out.
	Duplicates int `json:"duplicates,omitempty"`
}

// ID returns the full name of a memory.
func (h *Hit) ID() string { return memory.ID(h.Namespace, h.Key) }

// time returns the hit's time: for a memory, when its content happened, if known.
func (h *Hit) time() time.Time {
	if h.OccurredAt != nil {
		return *h.OccurredAt
	}
	return h.CreatedAt
}

// Why explains a score: its parts add up to it.
type Why struct {
	// Terms are the query's words that the document itself contains. Neighbours is what the adjacent documents add.
	Terms      []Term  `json:"terms"`
	Neighbours float64 `json:"neighbours"`
	Session    float64 `json:"session"`
	Date       float64 `json:"date"`
	Importance float64 `json:"importance"`
	// The parts other than words: the text names a time that is asked for, is by a speaker who is named, is short, is a
	// question, is a long one of an assistant, contradicts an older hit.
	When     float64 `json:"when,omitempty"`
	Speaker  float64 `json:"speaker,omitempty"`
	Length   float64 `json:"length,omitempty"`
	Question float64 `json:"question,omitempty"`
	Essay    float64 `json:"essay,omitempty"`
	Newer    float64 `json:"newer,omitempty"`
	// Adjacent is for words that follow each other as they do in the query.
	Adjacent float64 `json:"adjacent,omitempty"`
	// User and Spread apply to requests for a summary or an order: the bonus of a user's message, and the deduction for
	// being near a better hit.
	User   float64 `json:"user,omitempty"`
	Spread float64 `json:"spread,omitempty"`
	// Vector is for a meaning near that of the query, if the project has a model.
	Vector float64 `json:"vector,omitempty"`
}

// Parts returns all parts of the score.
func (y *Why) Parts() []float64 {
	parts := []float64{y.Neighbours, y.Session, y.Date, y.When, y.Speaker, y.Length, y.Question, y.Essay, y.Importance,
		y.Newer, y.Vector, y.Adjacent, y.User, y.Spread}
	for _, t := range y.Terms {
		parts = append(parts, t.Weight)
	}
	return parts
}

// Term is one word's part of a score.
type Term struct {
	Term   string  `json:"term"`
	Weight float64 `json:"weight"`
	// As are the stems that were found for the word but are not the word itself: the word meant by a typing error, a
	// compound of it, or a word that begins with it.
	As []string `json:"as,omitempty"`
	// Soft means that the hit holds some of As, words of a similar meaning by the static model, and not the word itself.
	Soft bool `json:"soft,omitempty"`
}

// found returns the hit with its score and explanation.
func (h Hit) found(by *rank.Hit) Hit {
	h.Score, h.Duplicates = by.Score, by.Duplicates
	y := &by.Why
	h.Why.Neighbours, h.Why.Session, h.Why.Date, h.Why.Importance = y.Neighbours, y.Session, y.Date, y.Importance
	h.Why.When, h.Why.Speaker, h.Why.Length, h.Why.Newer = y.When, y.Speaker, y.Length, y.Newer
	h.Why.Question, h.Why.Essay, h.Why.Vector = y.Question, y.Essay, y.Vector
	h.Why.Adjacent, h.Why.User, h.Why.Spread = y.Adjacent, y.User, y.Spread
	for _, t := range by.Why.Terms {
		h.Why.Terms = append(h.Why.Terms, Term{t.Word, t.Share, t.As, t.Soft})
	}
	return h
}

func memoryHit(m *memory.Memory) Hit {
	h := Hit{Kind: "memory", Key: m.Key, Namespace: m.Namespace, OccurredAt: m.OccurredAt, Metadata: m.Metadata,
		Value: m.Value, Content: m.Content, Category: m.Category, Tags: append([]string{}, m.Tags...),
		Source: m.Source, CreatedAt: m.UpdatedAt, Importance: m.Importance, Trust: m.Trust, Why: Why{Terms: []Term{}}}
	if m.SessionID != nil {
		h.SessionID = *m.SessionID
	}
	return h
}

func messageHit(sinc ident.Incarnation, seq uint64, sessionID string, hd *transcript.Header, m *chat.Message) Hit {
	content := m.Text
	if content == "" {
		content = searchedText(m) // of a message that only calls tools
	}
	return Hit{Kind: "message", MessageID: transcript.MessageID(sinc, seq), Content: content,
		Tags: append([]string{}, hd.Tags...), SessionID: sessionID, Turn: hd.Turn, Role: chat.RoleName(hd.Role),
		Agent: hd.Agent, Speaker: m.Name, CreatedAt: records.TimeOf(hd.Created), Why: Why{Terms: []Term{}}}
}
