package window

// This part of the package finds memories and puts them into the window as reminders: those that the request asks for
// before the newest question, and those of earlier windows at their former places. Package reminder defines reminders.

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Reminders finds memories for windows.
type Reminders struct {
	recall   *recall.Service
	memories *memory.Service
}

// NewReminders returns a Reminders that searches with r.
func NewReminders(r *recall.Service, m *memory.Service) *Reminders { return &Reminders{r, m} }

// MemoryRequest asks for long-term memories. Without a Query, the newest user message that the viewer may see is the
// query. Only memories that pass the filters are included.
type MemoryRequest struct {
	Query    string `json:"query,omitempty"`
	Limit    int    `json:"limit,omitempty"`    // 1 to 100; 0 means 5
	Position string `json:"position,omitempty"` // before_newest, the default, or first
	Role     string `json:"role,omitempty"`     // user, the default, or system

	// The filters of recall. Namespace defaults to the session's. Reminders of earlier windows leave out memories outside
	// it, too.
	Namespace  []string          `json:"namespace,omitempty"`
	Category   string            `json:"category,omitempty"`
	Categories []string          `json:"categories,omitempty"`
	Tags       []string          `json:"tags,omitempty"`
	TagsAny    []string          `json:"tags_any,omitempty"`
	TagsNot    []string          `json:"tags_not,omitempty"`
	Source     string            `json:"source,omitempty"`
	SessionID  string            `json:"session_id,omitempty"`
	Since      string            `json:"since,omitempty"`
	Until      string            `json:"until,omitempty"`
	Metadata   memory.Conditions `json:"metadata,omitempty"`
	Value      memory.Conditions `json:"value,omitempty"`
	MinTrust   memory.Trust      `json:"min_trust,omitempty"` // default: the setting memory_min_trust
	MinScore   float64           `json:"min_score,omitempty"`
}

// query returns the request as a query of recall by a client in a session.
func (r *MemoryRequest) query(session string) recall.Query {
	return recall.Query{Query: r.Query, Limit: r.Limit, Scope: "memories", Namespace: r.Namespace, Category: r.Category,
		Categories: r.Categories, Tags: r.Tags, TagsAny: r.TagsAny, TagsNot: r.TagsNot, Source: r.Source,
		SessionID: r.SessionID, Since: r.Since, Until: r.Until, Metadata: r.Metadata, Value: r.Value, MinScore: r.MinScore,
		MinTrust: r.MinTrust, Reader: &session}
}

// first reports whether memories go to the front of the window instead of before the message that they were recalled
// for.
func (r *MemoryRequest) first() bool { return r.Position == "first" }

// AsSystem reports whether memories are shown with the role system.
func (r *MemoryRequest) AsSystem() bool { return r.Role == "system" }

// Check returns invalid_value or out_of_range for an invalid request.
func (r *MemoryRequest) Check() error {
	switch {
	case r == nil:
		return nil
	case !slices.Contains([]string{"", "before_newest", "first"}, r.Position):
		return fault.InvalidField("memories.position", "invalid_value", "must be before_newest or first")
	case !slices.Contains([]string{"", "user", "system"}, r.Role):
		return fault.InvalidField("memories.role", "invalid_value", "must be user or system")
	case !(r.MinScore >= 0): // including NaN
		return fault.InvalidField("memories.min_score", "out_of_range", "must be at least 0")
	}
	if _, err := memory.ParseTrust("memories.min_trust", string(r.MinTrust)); err != nil {
		return err
	}
	return ident.CheckStoredNamespace("memories.namespace", r.Namespace)
}

// From says for whom and where memories are recalled.
type From struct {
	Caller    ident.Caller
	ProjectID string
	Project   *project.Record
	SessionID string   // of the window
	Namespace []string // of that session; nil if it has none
	// MinTrust is the project's setting; empty if it has none. Then reminders do not say how far to trust a memory.
	MinTrust memory.Trust
}

// within returns the namespace in which the request looks for memories: the one it names, or else the session's.
func (s *Memories) within() []string {
	if len(s.Ask.Namespace) > 0 {
		return s.Ask.Namespace
	}
	return s.namespace
}

// MemoryInputs has the facts about a window that its memories depend on.
type MemoryInputs struct {
	Tenant  string
	Project ident.Incarnation // zero for a window that is not stored
	Session ident.Incarnation
	At      int64          // ms since 1970
	Ask     *MemoryRequest // nil if the request asks for none
	Counter *cache.Counter

	Rows    []*cache.Row // the considered messages, by seq
	Stored  int          // how many of them are stored; the others are pending
	Posted  []int32      // by pending row: the index of its message in the request
	Visible func(*cache.Row) bool
	// Body reads a message. It returns Damaged if the message cannot be read.
	Body    func(*cache.Row) (*chat.Message, error)
	Damaged error
}

// Memories holds the memories of one window. The zero value adds none.
type Memories struct {
	svc *Reminders
	MemoryInputs
	// From is nil if nothing is to be recalled, or has been already.
	From *From
	// Before is the reminder of the previous window that is not yet stored with its message, or nil.
	Before *reminder.Bound
	// Found are the memories found for the newest question, best first.
	Found     []reminder.Recalled
	Forgotten []reminder.Memory // memories of earlier reminders that were deleted since

	minTrust  memory.Trust // of the project
	viewer    ident.Caller // of the window
	namespace []string     // of its session; nil if it has none
	replay    bool
	blank     bool              // memories that are no longer stored are blank, instead of an error
	blanked   bool              // one that was found is
	again     *reminder.Current // in a replay, from the decision
	earlier   map[int32]*boundReminder
	reminders map[int32]*reminder.Message // by considered row: the reminder before it
}

// ForWindow returns the memories of a new window, before anything is recalled.
func (svc *Reminders) ForWindow(from *From, before *reminder.Bound) Memories {
	s := Memories{svc: svc, From: from, Before: before}
	if from != nil {
		s.viewer, s.namespace, s.minTrust = from.Caller, from.Namespace, from.MinTrust
	}
	return s
}

// ForReplay returns the memories of a replayed window: those that were found, and the reminder before the newest
// question. If a version of a memory is no longer stored, it returns memory_purged, or takes it as blank. It returns
// not_found if the reader does not reach a memory.
func (svc *Reminders) ForReplay(ctx context.Context, reader ident.Caller, pinc ident.Incarnation, found []reminder.Memory,
	current *reminder.Current, forgotten []reminder.Memory, blank bool) (Memories, error) {
	s := Memories{svc: svc, Forgotten: forgotten, replay: true, again: current, blank: blank, viewer: reader}
	for _, m := range found {
		if err := s.reached(m); err != nil {
			return s, err
		}
	}
	versions, err := svc.memories.Versions(ctx, reader.Tenant, pinc, found, nil)
	for i, rec := range versions {
		switch {
		case rec != nil:
			s.Found = append(s.Found, recalled(rec))
		case blank:
			s.Found, s.blanked = append(s.Found, reminder.Recalled{Memory: found[i]}), true
		default:
			return s, purged(found[i])
		}
	}
	return s, err
}

// reached returns not_found if the viewer of a replayed window does not reach a memory that the window shows.
func (s *Memories) reached(m reminder.Memory) error {
	namespace, _ := ident.SplitFullName(m.Key)
	if s.viewer.Reaches(namespace) {
		return nil
	}
	return fault.Errorf(fault.NotFound, "not_found", "the window of this decision shows memories that your key does not reach")
}

func purged(m reminder.Memory) error {
	return fault.Errorf(fault.Gone, "memory_purged", "version %d of memory %q, which this decision used, is purged",
		m.Version, m.Key)
}

// Find finds the reminders that earlier windows put before the considered messages, and recalls what the request asks
// for. It returns memory_purged and the errors of package recall, with fields named as in the request.
func (s *Memories) Find(ctx context.Context, in MemoryInputs) error {
	s.MemoryInputs = in
	if err := s.bind(ctx); err != nil {
		return err
	}
	return s.remember(ctx)
}

// remember recalls the memories that the request asks for, once, even if the window is made several times.
func (s *Memories) remember(ctx context.Context) error {
	if s.From == nil || s.Ask == nil || s.boundNewest() != nil {
		return nil
	}
	ask, from := s.Ask, s.From
	s.From = nil
	q := ask.query(from.SessionID)
	q.Namespace, q.MinTrust = s.within(), s.least()
	if strings.TrimSpace(q.Query) == "" {
		q.Plain = true
		question, err := s.question()
		if err != nil {
			return err
		}
		q.Query = question
		if strings.TrimSpace(question) == "" {
			q.Query, q.MinScore = "*", 0 // the most recent, which have no scores
		}
	}
	found, err := s.svc.recall.Recall(ctx, from.Caller, from.ProjectID, q)
	if known, ok := errors.AsType[*fault.Error](err); ok && known.Kind == fault.Invalid {
		for i := range known.Fields {
			known.Fields[i].Field = "memories." + known.Fields[i].Field
		}
	}
	if err != nil {
		return err
	}
	keys := make([]string, len(found.Data))
	for i, hit := range found.Data {
		keys[i] = hit.ID()
	}
	records, err := s.svc.memories.Read(ctx, s.Tenant, from.Project, keys)
	if err != nil {
		return err
	}
	for _, rec := range records {
		if rec != nil { // otherwise it was deleted in the meantime
			s.Found = append(s.Found, recalled(rec))
		}
	}
	return nil
}

// least returns the trust that memories need to be recalled. In a project that sets memory_min_trust, what has the
// authority of a system prompt must be said by a user or by an operator.
func (s *Memories) least() memory.Trust {
	min := cmp.Or(s.Ask.MinTrust, s.minTrust)
	if s.minTrust != "" && s.Ask.AsSystem() && !min.AtLeast(memory.TrustUser) {
		return memory.TrustUser
	}
	return min
}

func recalled(r *memory.Record) reminder.Recalled {
	return reminder.Recalled{Memory: reminder.Memory{Key: r.ID(), Incarnation: r.Incarnation, Version: r.Version},
		Category: r.Category, Content: r.Content, Trust: string(r.Trust), Day: r.Time().UTC().Format(time.DateOnly)}
}

// maxQuestion is the number of bytes of a message that are used as a query.
const maxQuestion = 2000

// question returns the text of the newest readable user message that the viewer may see.
func (s *Memories) question() (string, error) {
	for _, r := range slices.Backward(s.Rows) {
		if r.Role != plan.RoleUser || !s.Visible(r) {
			continue
		}
		m, err := s.Body(r)
		if errors.Is(err, s.Damaged) {
			continue
		}
		if err != nil {
			return "", err
		}
		return strings.ToValidUTF8(m.Text[:min(len(m.Text), maxQuestion)], ""), nil
	}
	return "", nil
}
