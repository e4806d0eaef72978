package catalogue

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// lister builds one page.
type lister struct {
	svc     *Service
	ctx     context.Context
	c       ident.Caller
	q       *Query
	project *project.Record
	setup   *project.Setup

	limit    int
	order    int // index in sorts
	descends bool
	after    *place // nil means from the start
	matches  map[string]*found

	kept []candidate // the best so far, at most one more than fits on the page; sorted once there are that many
}

// candidate is a session that may be on the page.
type candidate struct {
	place
	*session.NamedHead
}

// before reports whether position a precedes b in the order of the list.
func (l *lister) before(a, b place) bool {
	if l.descends {
		a, b = b, a
	}
	return a.compare(b) < 0
}

// collect reads the heads of the project and keeps the first ones after the previous page.
func (l *lister) collect() error {
	from := ""
	if byKey := l.q.Sort == byID; byKey && l.after != nil {
		from = l.after.id
	}
	for h, err := range l.svc.sessions.Heads(l.ctx, l.c.Tenant, l.project.Incarnation, from) {
		if err != nil {
			return err
		}
		if !l.q.takes(&h) || l.q.Text != "" && !l.found(&h) {
			continue
		}
		at := place{l.value(&h), h.ID}
		if l.after != nil && !l.before(*l.after, at) {
			continue
		}
		l.keep(candidate{at, &h})
		if l.q.Sort == byID && len(l.kept) > l.limit {
			break // the rest have later ids
		}
	}
	return nil
}

// keep adds a session to the best ones, and drops the last one if there are too many.
func (l *lister) keep(new candidate) {
	most := l.limit + 1
	if len(l.kept) == most && !l.before(new.place, l.kept[most-1].place) {
		return
	}
	at, _ := slices.BinarySearchFunc(l.kept, new.place, func(c candidate, p place) int {
		if l.before(c.place, p) {
			return -1
		}
		return 1
	})
	if l.kept = slices.Insert(l.kept, at, new); len(l.kept) > most {
		l.kept = l.kept[:most]
	}
}

// value returns the value by which a session is ordered.
func (l *lister) value(h *session.NamedHead) uint64 {
	x := h.Extent()
	switch strings.TrimPrefix(l.q.Sort, "-") {
	case byActivity:
		return uint64(h.LastActivity.UnixNano())
	case byTurns:
		return uint64(x.LivingTurns())
	case byTokens:
		return h.Tokens[l.setup.Encoding]
	case byRelevance:
		return l.matches[h.ID].weight()
	}
	return 0 // ordered by id only
}

// page returns the collected sessions as a page.
func (l *lister) page() (records.List[Row], error) {
	out := records.List[Row]{Data: []Row{}}
	if len(l.kept) > l.limit {
		l.kept = l.kept[:l.limit]
		out.HasMore, out.NextCursor = true, l.cursor(l.kept[l.limit-1].place)
	}
	out.Data = make([]Row, len(l.kept))
	shown := make([]session.SummaryOf, len(l.kept))
	for i, k := range l.kept {
		out.Data[i].Session = k.Session(k.ID, l.setup.Encoding)
		out.Data[i].Match = l.matches[k.ID].match()
		shown[i] = session.SummaryOf{Session: &out.Data[i].Session, Head: &k.Head}
	}
	if err := l.svc.sessions.ShowSummaries(l.ctx, l.c.Tenant, shown); err != nil {
		return out, err
	}
	for i, k := range l.kept {
		row := &out.Data[i]
		for _, field := range l.q.Fields {
			var err error
			switch field {
			case fieldPreview:
				row.Preview, err = l.preview(k.NamedHead)
			case fieldWindow:
				row.Window, err = l.windows(k.ID)
			}
			if err != nil {
				return out, err
			}
		}
	}
	return out, nil
}
