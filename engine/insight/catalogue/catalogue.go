// Package catalogue lists the sessions of a project: sorted by size or last use, filtered by the words of their
// messages, with their latest messages and windows.
//
// Sessions are indexed only by id. A list in another order reads the heads of all sessions of the project, which are
// small, and keeps at most one page of them. Turns, which are frequent, therefore pay nothing for lists, which are
// rare.
package catalogue

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// Service lists sessions.
type Service struct {
	projects  *project.Service
	sessions  *session.Service
	recall    *recall.Service
	decisions *decision.Service
}

// New returns a Service.
func New(projects *project.Service, sessions *session.Service, recall *recall.Service,
	decisions *decision.Service) *Service {
	return &Service{projects: projects, sessions: sessions, recall: recall, decisions: decisions}
}

// Row is a session in a list.
type Row struct {
	session.Session
	Match   *Match   `json:"match,omitempty"`   // where Query.Text was found in its messages
	Preview *Preview `json:"preview,omitempty"` // its latest messages, if requested
	Window  *Windows `json:"window,omitempty"`  // its latest windows, if requested and if there are any
}

// Query selects and orders sessions, and says which details to show. Empty fields select everything.
type Query struct {
	Sort   string // one of sorts; empty means id, or relevance if there is a text
	Agent  string
	Kind   string
	Since  *time.Time // last activity then or later
	Text   string     // the id or the title contains it, or a message is found by it
	Fields []string   // any of fieldPreview and fieldWindow
	// Namespace selects the sessions in it and below it. The default is that of a caller who is narrowed to one.
	Namespace []string
}

// The orders of a list. A leading minus reverses an order.
const (
	byID        = "id"
	byActivity  = "last_activity_at"
	byTurns     = "turns"
	byTokens    = "tokens"
	byRelevance = "relevance" // best match first
)

// sorts are the orders.
var sorts = []string{byID, "-" + byID, byActivity, "-" + byActivity, byTurns, "-" + byTurns, byTokens, "-" + byTokens,
	byRelevance}

// Details that a list shows only if requested.
const (
	fieldPreview = "preview"
	fieldWindow  = "window"
)

// maxWithFields is the largest page size with details, which need several reads for each session.
const maxWithFields = 200

// check returns an error for an invalid query.
func (q *Query) check(page records.Page) error {
	q.Text = strings.TrimSpace(q.Text)
	if q.Sort == "" {
		q.Sort = byID
		if q.Text != "" {
			q.Sort = byRelevance
		}
	}
	switch {
	case !slices.Contains(sorts, q.Sort):
		return fault.InvalidField("sort", "invalid_value", "must be one of %s", strings.Join(sorts, ", "))
	case q.Sort == byRelevance && q.Text == "":
		return fault.InvalidField("sort", "invalid_value", "must not be relevance without q")
	case q.Kind != "" && q.Kind != session.KindChat && q.Kind != session.KindBackground:
		return fault.InvalidField("kind", "invalid_value", "must be chat or background")
	case len(q.Fields) > 0 && page.Limit > maxWithFields:
		return fault.InvalidField("limit", "out_of_range", "must be at most %d if fields are given", maxWithFields)
	}
	for _, field := range q.Fields {
		if field != fieldPreview && field != fieldWindow {
			return fault.InvalidField("fields", "invalid_value", "must be preview, window or both")
		}
	}
	return nil
}

// takes reports whether a session passes all filters except the text.
func (q *Query) takes(h *session.NamedHead) bool {
	return h.Counts(h.ID) && (q.Agent == "" || q.Agent == h.Agent) && (q.Kind == "" || q.Kind == h.Kind) &&
		ident.Below(h.Namespace, q.Namespace) && (q.Since == nil || !h.LastActivity.Before(*q.Since))
}

// List lists a project's sessions. It returns not_found, out_of_range, invalid_cursor, and invalid_value for an invalid
// filter or order.
func (svc *Service) List(ctx context.Context, c ident.Caller, projectID string, q Query, page records.Page) (
	records.List[Row], error) {
	out := records.List[Row]{Data: []Row{}}
	if err := q.check(page); err != nil {
		return out, err
	}
	c, namespace, err := c.In(q.Namespace)
	if err == nil {
		err = ident.CheckStoredNamespace("namespace", namespace)
	}
	if err != nil {
		return out, err
	}
	q.Namespace = namespace
	l := lister{svc: svc, ctx: ctx, c: c, q: &q}
	if l.project, err = svc.projects.Find(ctx, c, projectID); err != nil {
		return out, err
	}
	if l.setup, err = svc.projects.SetupOf(l.project); err != nil {
		return out, err
	}
	if err := l.bound(page); err != nil {
		return out, err
	}
	if q.Text != "" {
		if err := l.match(); err != nil {
			return out, err
		}
	}
	if err := l.collect(); err != nil {
		return out, err
	}
	return l.page()
}

// place is the position of a session in an order: a value, and its id among those with the same value.
type place struct {
	value uint64
	id    string
}

func (p place) compare(o place) int {
	if p.value != o.value {
		if p.value < o.value {
			return -1
		}
		return 1
	}
	return strings.Compare(p.id, o.id)
}

// bound decodes the position at which the page begins.
func (l *lister) bound(page records.Page) error {
	limit, cursor, err := page.Decode(l.list()...)
	if err != nil {
		return err
	}
	l.limit = limit
	l.order, l.descends = slices.Index(sorts, l.q.Sort), strings.HasPrefix(l.q.Sort, "-") || l.q.Sort == byRelevance
	if cursor == nil {
		return nil
	}
	if len(cursor) < 9 {
		return records.ErrCursor()
	}
	l.after = &place{binary.BigEndian.Uint64(cursor), string(cursor[8:])}
	return nil
}

// list identifies the list in its cursors.
func (l *lister) list() [][]byte {
	return [][]byte{[]byte("sessions"), l.project.Incarnation[:], []byte(l.q.Sort)}
}

// cursor returns the cursor of the page that follows a position.
func (l *lister) cursor(p place) *string {
	return records.Cursor(append(binary.BigEndian.AppendUint64(nil, p.value), p.id...), l.list()...)
}
