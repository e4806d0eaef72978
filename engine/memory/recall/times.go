package recall

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
)

// ofTimes handles a query that asks only for a time, such as "what did I do yesterday?". It finds hits from that time,
// newest first. It returns false if the query also asks for something else that can be found, or if there are no hits
// from that time.
func (r *recalling) ofTimes() (bool, error) {
	times, rest := rank.TimesOf(r.Query.Query, r.now())
	days := times.Days(r.now())
	if len(days) == 0 || strings.ContainsAny(r.Query.Query, `"“„`) {
		return false, nil
	}
	if !r.svc.index.SaysNothing(rest) {
		found, err := r.finds(rest)
		if found || err != nil {
			return false, err
		}
	}
	var hits []Hit
	incomplete := false
	for _, span := range days {
		of := r.within(span)
		if of == nil {
			continue
		}
		if err := of.recent(); err != nil {
			return false, err
		}
		hits = append(hits, of.out.Data...)
		incomplete = incomplete || of.out.Incomplete
	}
	if len(hits) == 0 {
		return false, nil
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return b.time().Compare(a.time()) })
	for _, h := range hits {
		h.Score = times.Share(h.time())
		h.Why.Date = h.Score
		if h.Score >= r.MinScore && !r.out.add(h) {
			break
		}
	}
	r.out.Incomplete = r.out.Incomplete || incomplete
	r.out.Data = r.out.Data[:min(len(r.out.Data), r.Limit)]
	return true, nil
}

// within returns the request without words, limited to some days, or nil if the request's own bounds exclude them.
func (r *recalling) within(span rank.Span) *recalling {
	q := *r.Query
	first, last := span.Bounds()
	if r.memories.From != nil && r.memories.From.After(first) {
		first = *r.memories.From
	}
	if r.memories.To != nil && r.memories.To.Before(last) {
		last = *r.memories.To
	}
	if last.Before(first) {
		return nil
	}
	q.Query, q.MinScore = "", 0
	q.Since, q.Until = first.Format(time.RFC3339Nano), last.Format(time.RFC3339Nano)
	req, err := q.check()
	if err != nil {
		return nil
	}
	return &recalling{request: req, svc: r.svc, ctx: r.ctx, caller: r.caller, tenant: r.tenant, project: r.project,
		out: Result{Data: []Hit{}}}
}

// recent finds memories and messages without words.
func (r *recalling) recent() error {
	if r.Scope != scopeTranscript {
		if err := r.recentMemories(); err != nil {
			return err
		}
	}
	if r.Scope == scopeMemories || r.memoriesAlone() {
		return nil
	}
	return r.recentMessages()
}

// finds reports whether words find anything by themselves.
func (r *recalling) finds(words string) (bool, error) {
	q := *r.Query
	q.Query, q.MinScore, q.Limit = words, 0, 1
	req, err := q.check()
	if err != nil {
		return false, err
	}
	of := &recalling{request: req, svc: r.svc, ctx: r.ctx, caller: r.caller, tenant: r.tenant, project: r.project,
		embedded: true, out: Result{Data: []Hit{}}}
	if err := of.byWords(); err != nil {
		return false, err
	}
	return len(of.out.Data) > 0 || of.out.Incomplete, nil
}
