package stats

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Bucket is the time that one row of a series covers.
type Bucket string

// The buckets, in UTC.
const (
	Hour Bucket = "hour"
	Day  Bucket = "day"
)

// span returns the length of a bucket; 0 for an unknown one.
func (b Bucket) span() time.Duration {
	switch b {
	case Hour:
		return time.Hour
	case Day:
		return 24 * time.Hour
	}
	return 0
}

// usual returns the number of buckets in a series without a start time: a day of hours, a month of days.
func (b Bucket) usual() int {
	if b == Hour {
		return 24
	}
	return 30
}

// Query asks for a series. From lies in its first bucket; To lies after its last one. nil means the default.
type Query struct {
	From, To *time.Time
	Bucket   Bucket
}

// Series is what a project did, by bucket, oldest first. Buckets in which nothing happened are included.
type Series struct {
	Bucket Bucket    `json:"bucket"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Total  Figures   `json:"total"`
	Data   []Row     `json:"data"`
}

// Row is one bucket.
type Row struct {
	At time.Time `json:"at"` // its start
	Figures
}

// Figures are what happened in a period. P50 and P95 are how long windows took, in microseconds; null if there were
// none.
type Figures struct {
	Sums
	P50 *uint64 `json:"p50_us"`
	P95 *uint64 `json:"p95_us"`
}

func (r *Record) figures() Figures {
	f := Figures{Sums: r.Sums, P50: r.Took.quantile(50), P95: r.Took.quantile(95)}
	if f.Failures == nil {
		f.Failures = map[plan.Status]uint64{}
	}
	return f
}

// resolve returns the starts of the first bucket and of the one after the last.
func (q *Query) resolve(now time.Time) (from, to time.Time, err error) {
	if q.Bucket == "" {
		q.Bucket = Day
	}
	span := q.Bucket.span()
	if span == 0 {
		return from, to, fault.InvalidField("bucket", "invalid_value", "must be hour or day")
	}
	last := now.Truncate(span).Add(span) // the end of the current bucket
	to = last
	if q.To != nil {
		if to = q.To.Truncate(span); to.Before(*q.To) {
			to = to.Add(span)
		}
	}
	from = to.Add(-span * time.Duration(q.Bucket.usual()))
	if q.From != nil {
		from = q.From.Truncate(span)
		if q.To != nil && !q.From.Before(*q.To) {
			return from, to, fault.InvalidField("from", "out_of_range", "must be before to")
		}
	}
	// Periods for which there cannot be counts produce no rows.
	oldest := oldestOf(now)
	from, to = within(from, oldest, last), within(to, oldest, last)
	return from.UTC(), to.UTC(), nil
}

func within(t, least, most time.Time) time.Time {
	switch {
	case t.Before(least):
		return least
	case t.After(most):
		return most
	}
	return t
}

// Series returns what a project did. It returns not_found, and out_of_range and invalid_value for an invalid query.
func (svc *Service) Series(ctx context.Context, c ident.Caller, projectID string, q Query) (Series, error) {
	from, to, err := q.resolve(svc.db.Now())
	if err != nil {
		return Series{}, err
	}
	p, err := svc.projects.Find(ctx, c, projectID)
	if err != nil {
		return Series{}, err
	}
	span := q.Bucket.span()
	sums := make([]Record, max(0, to.Sub(from)/span))
	if err := svc.each(ctx, c.Tenant, p, hourOf(from), hourOf(to), func(hour uint32, r *Record) {
		sums[timeOf(hour).Sub(from)/span].merge(r)
	}); err != nil {
		return Series{}, err
	}
	out := Series{Bucket: q.Bucket, From: from, To: to, Data: make([]Row, len(sums))}
	var total Record
	for i := range sums {
		out.Data[i] = Row{from.Add(time.Duration(i) * span), sums[i].figures()}
		total.merge(&sums[i])
	}
	out.Total = total.figures()
	return out, nil
}

// each visits all counts of a project from one hour up to another. For this server's own counts it uses those in
// memory, which are newer than the written ones.
func (svc *Service) each(ctx context.Context, tenant string, p *project.Record, from, to uint32,
	visit func(hour uint32, r *Record)) error {
	held := svc.copies(tenant, p.Incarnation, from, to)
	rng := records.Stats.Under2(p.Incarnation, from)
	rng.To = records.Stats.Under2(p.Incarnation, to).From
	for it, err := range records.Each[Record](ctx, svc.db, tenant, rng) {
		if errors.Is(err, records.ErrDamaged) {
			svc.db.Log.Error("counts of an hour are damaged; they are left out", "tenant", tenant)
			continue
		}
		if err != nil {
			return err
		}
		_, hour, writer, ok := records.Stats.Split(it.Key)
		own := held[hour]
		if !ok || own != nil && bytes.Equal(own.writer[:], writer[:]) {
			continue
		}
		visit(hour, it.Value)
	}
	for hour, c := range held {
		visit(hour, &c.Record)
	}
	return nil
}

// copies returns this server's counts of a project in memory, by hour.
func (svc *Service) copies(tenant string, pinc ident.Incarnation, from, to uint32) map[uint32]*count {
	out := map[uint32]*count{}
	svc.mu.Lock()
	defer svc.mu.Unlock()
	for hour := from; hour < to; hour++ {
		if c := svc.held[place{tenant, pinc, hour}]; c != nil {
			own := &count{writer: c.writer}
			own.merge(&c.Record)
			out[hour] = own
		}
	}
	return out
}
