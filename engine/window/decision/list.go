package decision

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

// Row has the fields of a decision that lists show. It is a record of its own with a key by time, because decisions may
// be long, and those of a day are sorted by session.
type Row struct {
	ID      string    `json:"decision_id,omitzero"`
	Session string    `json:"session_id"`
	Turn    uint32    `json:"turn"` // the session's newest
	At      time.Time `json:"created_at"`
	ForkOf  string    `json:"fork_of,omitzero"` // the decision of which it is a fork
	Seen
	Usage    Usage     `json:"usage"`
	Cut      bool      `json:"cut"`      // it does not begin with all history of the window before
	Outcomes []Outcome `json:"outcomes"` // by step
}

// storedRow is a Row as it is stored.
type storedRow struct {
	ID      string    `json:"id,omitzero"` // its key says it
	Session string    `json:"session"`
	Turn    uint32    `json:"turn"` // the session's newest
	At      time.Time `json:"at"`
	ForkOf  string    `json:"fork_of,omitzero"` // the decision of which it is a fork
	Seen
	Usage    Usage     `json:"usage"`
	Cut      bool      `json:"cut"`      // it does not begin with all history of the window before
	Outcomes []Outcome `json:"outcomes"` // by step
}

// Seen has facts about a window that are computed for its row, and are not in its record.
type Seen struct {
	Viewer  ident.Viewer `json:"viewer"`
	Format  string       `json:"format"`
	LeftOut LeftOut      `json:"left_out"`
	OfCall
}

// LeftOut counts the messages that a window leaves out: dropped ones, and those too old to be considered. Messages that
// a summary or an earlier question replaces do not count.
type LeftOut struct {
	Count  uint64 `json:"count"`
	Tokens uint64 `json:"tokens"` // of the dropped ones
}

// Outcome is the outcome of one step.
type Outcome struct {
	Policy  string      `json:"policy"`
	Version int         `json:"version"`
	Outcome plan.Status `json:"outcome"`
}

// decodeRow returns a stored row.
func decodeRow(b []byte) (*Row, error) {
	var s storedRow
	err := json.Unmarshal(b, &s)
	return (*Row)(&s), err
}

// row returns the row of a record.
func (r *Record) row(seen Seen) *Row {
	row := &Row{ForkOf: r.ForkOf, Session: r.Session, Turn: r.Extent.Turns, At: records.TimeOf(r.At), Seen: seen, Usage: r.Usage, Cut: r.Cut,
		Outcomes: make([]Outcome, len(r.Steps))}
	for i := range r.Steps {
		s := &r.Steps[i]
		row.Outcomes[i] = Outcome{s.Policy, s.Version, s.Outcome}
	}
	return row
}

// Filter selects the decisions of a list. Empty and nil fields select all.
type Filter struct {
	Session      string
	Since, Until *time.Time  // Since is inclusive, Until exclusive
	Outcome      plan.Status // of any step; StatusOK requires it of all steps
	Policy       string      // of a step, as name or name@version; Outcome then applies only to its steps
	Cut          *bool
}

// Failed is a Filter's Outcome that selects decisions with a step that is not StatusOK.
const Failed plan.Status = "failed"

// check returns invalid_value for an unknown outcome.
func (f *Filter) check() error {
	if f.Outcome == "" || f.Outcome == Failed || slices.Contains(plan.Statuses, f.Outcome) {
		return nil
	}
	return fault.InvalidField("outcome", "invalid_value", "must be %s or how a step may end", Failed)
}

// takes reports whether a row passes the filter, apart from its session.
func (f *Filter) takes(r *Row) bool {
	if f.Since != nil && r.At.Before(*f.Since) || f.Until != nil && !r.At.Before(*f.Until) ||
		f.Cut != nil && r.Cut != *f.Cut {
		return false
	}
	some, as := f.Policy == "", f.Outcome == "" || f.Outcome == plan.StatusOK
	for _, o := range r.Outcomes {
		if f.Policy != "" && f.Policy != o.Policy && f.Policy != policy.VersionName(o.Policy, o.Version) {
			continue
		}
		some = true
		switch f.Outcome {
		case "":
		case plan.StatusOK:
			as = as && o.Outcome == plan.StatusOK
		case Failed:
			as = as || o.Outcome != plan.StatusOK
		default:
			as = as || o.Outcome == f.Outcome
		}
	}
	return some && as
}

// maxLooked limits the rows that are read for one page, and maxDays the days that are read for one session, so that a
// filter that nothing passes cannot make a request slow. The page then has few rows or none, and a cursor.
const (
	maxLooked = 2000
	maxDays   = 400
	// fewLooked is the minimum number of rows per round trip if only few may pass the filter.
	fewLooked = 250
)

// List returns a project's decisions, newest first. For a list of one session, no other decisions are read. A caller that
// is narrowed to namespaces must name a session that it reaches. Errors are not_found, out_of_range, invalid_cursor,
// required, and invalid_value for an unknown outcome.
func (svc *Service) List(ctx context.Context, c ident.Caller, projectID string, f Filter, page records.Page,
) (records.List[Row], error) {
	out := records.List[Row]{Data: []Row{}}
	if err := f.check(); err != nil {
		return out, err
	}
	if c.Namespaces != nil && f.Session == "" {
		return out, fault.InvalidField("session_id", "required", "your key is limited to namespaces: name a session")
	}
	l := lister{svc: svc, ctx: ctx, tenant: c.Tenant}
	p, heads, _, err := svc.projects.Read(ctx, c.Unconfined(), projectID, func(pinc ident.Incarnation) [][]byte {
		l.pinc = pinc
		if f.Session == "" {
			return nil
		}
		return [][]byte{records.Session.Key(pinc, f.Session)}
	})
	if err != nil {
		return out, err
	}
	list := records.DecisionRow.Under(p.Incarnation).From
	limit, from, err := page.Decode(list)
	if err != nil {
		return out, err
	}
	l.bound(&f, from)
	if c.Namespaces != nil {
		h, err := session.DecodeHead(heads[0])
		if err != nil || h == nil || !c.Reaches(h.Namespace) {
			return out, cmp.Or(err, error(fault.Errorf(fault.NotFound, "not_found", "no session %q", f.Session)))
		}
		l.sessions = []ident.Incarnation{h.Incarnation}
	} else if f.Session != "" {
		// A session's first decisions may have been made before its first turn.
		l.sessions = []ident.Incarnation{session.Unborn(f.Session)}
		h := new(session.Head)
		if json.Unmarshal(heads[0].Value, h) == nil {
			l.sessions = append(l.sessions, h.Incarnation)
		}
	}
	rows, last, err := l.page(&f, limit)
	if last != nil {
		out.HasMore, out.NextCursor = true, records.Cursor(last[len(list):], list)
	}
	out.Data = append(out.Data, rows...)
	return out, err
}

// page returns the next rows that pass the filter, and the key after which the next page begins, which is nil on the
// last page. Damaged rows are left out: verify reports them.
func (l *lister) page(f *Filter, limit int) (rows []Row, last []byte, err error) {
	n := limit + 1
	if f.Outcome != "" || f.Policy != "" || f.Cut != nil { // few rows may pass
		n = max(n, fewLooked)
	}
	for looked := 0; ; {
		items, end, err := l.next(n)
		if err != nil {
			return rows, nil, err
		}
		for _, it := range items {
			looked++
			if it.Value == nil {
				continue
			}
			row, err := decodeRow(it.Value)
			if err != nil || !f.takes(row) {
				continue
			}
			if len(rows) == limit {
				return rows, last, nil
			}
			_, id := splitRowKey(it.Key)
			row.ID, last = id.String(), it.Key
			rows = append(rows, *row)
		}
		if end {
			return rows, nil, nil
		}
		if looked >= maxLooked || l.days >= maxDays {
			return rows, l.rng.To, nil
		}
	}
}

// lister reads the rows of a project from the newest to the oldest. The rows before rng.To are still to be read.
type lister struct {
	svc      *Service
	ctx      context.Context
	tenant   string
	pinc     ident.Incarnation
	rng      store.Range
	sessions []ident.Incarnation // nil means all
	days     int                 // number of days that were read, for a list of one session
}

// bound sets the range to read.
func (l *lister) bound(f *Filter, cursor []byte) {
	all := records.DecisionRow.Under(l.pinc)
	l.rng = store.Range{From: all.From, To: all.To, Reverse: true}
	if f.Since != nil {
		l.rng.From = records.DecisionRow.Under2(l.pinc, records.Day(*f.Since)).From
	}
	if f.Until != nil {
		l.rng.To = records.DecisionRow.Under2(l.pinc, records.Day(*f.Until)).To
	}
	if cursor != nil {
		if at := append(bytes.Clone(all.From), cursor...); bytes.Compare(at, l.rng.To) < 0 {
			l.rng.To = at
		}
	}
}

// next returns up to n rows, and moves rng.To. For a list of one session it returns the rows of some days, which may be
// none. It reports whether all rows have been read.
func (l *lister) next(n int) (items []store.Item, end bool, err error) {
	if bytes.Compare(l.rng.From, l.rng.To) >= 0 {
		return nil, true, nil
	}
	if l.sessions != nil {
		return l.ofSession(n)
	}
	l.rng.Limit = n
	r, err := l.svc.db.Store.Read(l.ctx, l.tenant, store.Query{Ranges: []store.Range{l.rng}})
	if err != nil {
		return nil, false, err
	}
	if items = r.Ranges[0]; len(items) == n {
		l.rng.To = items[n-1].Key
	}
	return items, len(items) < n, nil
}

// daysAtOnce is the number of days that one round trip reads, for a list of one session. By default, projects keep
// decisions for 7 days.
const daysAtOnce = 8

// ofSession reads the rows of the next days of a session. It finds them by the keys of the session's decisions.
func (l *lister) ofSession(n int) ([]store.Item, bool, error) {
	first := l.rng
	first.Limit, first.KeysOnly = 1, true // skips days without decisions of the project
	r, err := l.svc.db.Store.Read(l.ctx, l.tenant, store.Query{Ranges: []store.Range{first}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return nil, true, err
	}
	_, newest := splitRowKey(r.Ranges[0][0].Key)
	_, to := splitRowKey(l.rng.To) // the zero ID if To is not the key of a row
	var q store.Query
	day := int(newest.day)
	for ; day >= 0 && len(q.Ranges) < daysAtOnce*len(l.sessions); day-- {
		for _, sinc := range l.sessions {
			rng := records.PrefixRange(append(records.Decision.Under2(l.pinc, uint16(day)).From, sinc[:]...))
			rng.Reverse, rng.KeysOnly, rng.Limit = true, true, n
			if day == int(to.day) && to != (ID{}) {
				rng.To = records.Decision.Key(l.pinc, uint16(day), sinc, to.unique)
			}
			q.Ranges = append(q.Ranges, rng)
		}
	}
	if r, err = l.svc.db.Store.Read(l.ctx, l.tenant, q); err != nil {
		return nil, false, err
	}
	var keys [][]byte
	for i, found := range r.Ranges {
		for _, it := range found {
			_, id := splitKey(it.Key)
			if key := id.rowKey(l.pinc); bytes.Compare(key, l.rng.To) < 0 && bytes.Compare(key, l.rng.From) >= 0 {
				keys = append(keys, key)
			}
		}
		if len(keys) >= n && (i+1)%len(l.sessions) == 0 { // the day is complete
			day = int(newest.day) - i/len(l.sessions) - 1
			break
		}
	}
	return l.rows(keys, n, day)
}

// rows reads the rows of decisions by their keys, at most n. All decisions of later days have been read before.
func (l *lister) rows(keys [][]byte, n, day int) ([]store.Item, bool, error) {
	slices.SortFunc(keys, func(x, y []byte) int { return bytes.Compare(y, x) })
	l.days += daysAtOnce
	if len(keys) >= n {
		keys = keys[:n]
		l.rng.To = keys[n-1]
	} else {
		l.rng.To = records.DecisionRow.Under2(l.pinc, uint16(day+1)).From
	}
	var items []store.Item
	for part := range slices.Chunk(keys, records.MaxOfOneRead) {
		r, err := l.svc.db.Store.Read(l.ctx, l.tenant, store.Query{Keys: part})
		if err != nil {
			return nil, false, err
		}
		items = append(items, r.Keys...)
	}
	return items, false, nil
}

// rowKey returns the key of the decision's row.
func (id ID) rowKey(pinc ident.Incarnation) []byte {
	return records.DecisionRow.Key(pinc, id.day, id.unique, id.session)
}

// splitRowKey splits a row's key.
func splitRowKey(key []byte) (pinc ident.Incarnation, id ID) {
	pinc, id.day, id.unique, id.session, _ = records.DecisionRow.Split(key)
	return pinc, id
}
