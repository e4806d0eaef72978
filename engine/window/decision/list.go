package decision

import (
	"bytes"
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

// Row is what a list shows of a decision. It is kept beside the decision, under a key that goes by time, because a
// decision may be long and those of a day lie by session.
type Row struct {
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

// Seen is what a row says of a window that its record does not say in so few words.
type Seen struct {
	Viewer  ident.Viewer `json:"viewer"`
	Format  string       `json:"format"`
	LeftOut LeftOut      `json:"left_out"`
	OfCall
}

// LeftOut is what a window leaves out: messages that were dropped, and those older than it considers. What a summary
// or an earlier question stands for is not left out.
type LeftOut struct {
	Count  uint64 `json:"count"`
	Tokens uint64 `json:"tokens"` // of the dropped ones
}

// Outcome is how one step ended.
type Outcome struct {
	Policy  string      `json:"policy"`
	Version int         `json:"version"`
	Outcome plan.Status `json:"outcome"`
}

// row is what lists show of a record.
func (r *Record) row(seen Seen) *Row {
	row := &Row{ForkOf: r.ForkOf, Session: r.Session, Turn: r.Extent.Turns, At: records.TimeOf(r.At), Seen: seen, Usage: r.Usage, Cut: r.Cut,
		Outcomes: make([]Outcome, len(r.Steps))}
	for i := range r.Steps {
		s := &r.Steps[i]
		row.Outcomes[i] = Outcome{s.Policy, s.Version, s.Outcome}
	}
	return row
}

// Filter says which decisions a list shows. What is empty or nil asks for nothing.
type Filter struct {
	Session      string
	Since, Until *time.Time  // Since is the first moment, Until the first that is too late
	Outcome      plan.Status // of a step; ok and Failed speak of all steps
	Policy       string      // a step's, as name or name@version; Outcome is then of its steps alone
	Cut          *bool
}

// Failed is a Filter's Outcome of decisions that some step ended otherwise than well.
const Failed plan.Status = "failed"

// check answers invalid_value where the outcome is none.
func (f *Filter) check() error {
	if f.Outcome == "" || f.Outcome == Failed || slices.Contains(plan.Statuses, f.Outcome) {
		return nil
	}
	return fault.InvalidField("outcome", "invalid_value", "must be %s or how a step may end", Failed)
}

// takes tells whether a row passes the filter, but for its session.
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

// maxLooked bounds the rows that one page looks at, and maxDays the days of one session, so that a filter that nothing
// passes ends the page and not the server's patience. Such a page has few rows or none, and a cursor.
const (
	maxLooked = 2000
	maxDays   = 400
	// fewLooked is how many rows one round trip takes, at least, where a filter may pass few of them.
	fewLooked = 250
)

// List lists a project's decisions, newest first. Those of one session are found without looking at others. It answers
// not_found, out_of_range, invalid_cursor, and invalid_value where the outcome is none.
func (svc *Service) List(ctx context.Context, c ident.Caller, projectID string, f Filter, page records.Page,
) (records.List[Row], error) {
	out := records.List[Row]{Data: []Row{}}
	if err := f.check(); err != nil {
		return out, err
	}
	l := lister{svc: svc, ctx: ctx, tenant: c.Tenant}
	p, heads, _, err := svc.projects.Read(ctx, c, projectID, func(pinc ident.Incarnation) [][]byte {
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
	if f.Session != "" {
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
			row := new(Row)
			if it.Value == nil || json.Unmarshal(it.Value, row) != nil || !f.takes(row) {
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

// lister walks over the rows of a project from the newest to the oldest. What lies before rng.To is still to come.
type lister struct {
	svc      *Service
	ctx      context.Context
	tenant   string
	pinc     ident.Incarnation
	rng      store.Range
	sessions []ident.Incarnation // nil: all
	days     int                 // that were looked at, of a session
}

// bound sets where the walk begins and ends.
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

// next gives up to n rows, or those of some days of a session, which may be none, and moves rng.To. It tells whether
// the walk is at its end.
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

// daysAtOnce is how many days of a session one round trip looks at. A project keeps decisions for 7, unless it says
// otherwise.
const daysAtOnce = 8

// ofSession finds the rows of the next days of a session by the keys of its decisions.
func (l *lister) ofSession(n int) ([]store.Item, bool, error) {
	first := l.rng
	first.Limit, first.KeysOnly = 1, true // days on which the project has no decision are passed over
	r, err := l.svc.db.Store.Read(l.ctx, l.tenant, store.Query{Ranges: []store.Range{first}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return nil, true, err
	}
	_, newest := splitRowKey(r.Ranges[0][0].Key)
	_, to := splitRowKey(l.rng.To) // the zero ID where To is no row's key
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
		if len(keys) >= n && (i+1)%len(l.sessions) == 0 { // the whole day is there
			day = int(newest.day) - i/len(l.sessions) - 1
			break
		}
	}
	return l.rows(keys, n, day)
}

// rows reads the rows of a session's keys, at most n of them, where all decisions after a day were looked at.
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

// rowKey is where the decision's row lies.
func (id ID) rowKey(pinc ident.Incarnation) []byte {
	return records.DecisionRow.Key(pinc, id.day, id.unique, id.session)
}

// splitRowKey reads a row's key.
func splitRowKey(key []byte) (pinc ident.Incarnation, id ID) {
	pinc, id.day, id.unique, id.session, _ = records.DecisionRow.Split(key)
	return pinc, id
}
