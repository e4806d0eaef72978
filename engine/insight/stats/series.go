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

// Bucket is how much time one row of a series sums up.
type Bucket string

// The buckets, in UTC.
const (
	Hour Bucket = "hour"
	Day  Bucket = "day"
)

// span is the length of a bucket; 0: there is no such one.
func (b Bucket) span() time.Duration {
	switch b {
	case Hour:
		return time.Hour
	case Day:
		return 24 * time.Hour
	}
	return 0
}

// usual is how many buckets a series has that does not say since when: a day of hours, a month of days.
func (b Bucket) usual() int {
	if b == Hour {
		return 24
	}
	return 30
}

// Query asks for a series. From is a moment in its first bucket, To one that is behind its last; nil is the usual one.
type Query struct {
	From, To *time.Time
	Bucket   Bucket
}

// Series is what a project did, bucket by bucket, oldest first; a bucket in which nothing happened is there too.
type Series struct {
	Bucket Bucket    `json:"bucket"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Total  Figures   `json:"total"`
	Data   []Row     `json:"data"`
}

// Row is one bucket.
type Row struct {
	At time.Time `json:"at"` // its first moment
	Figures
}

// Figures are what happened in some time. P50 and P95 are how long windows took, in microseconds; null where there were
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

// resolve gives the first moments of the first bucket and of the one behind the last.
func (q *Query) resolve(now time.Time) (from, to time.Time, err error) {
	if q.Bucket == "" {
		q.Bucket = Day
	}
	span := q.Bucket.span()
	if span == 0 {
		return from, to, fault.InvalidField("bucket", "invalid_value", "must be hour or day")
	}
	last := now.Truncate(span).Add(span) // behind the bucket that is now
	if to = last; q.To != nil {
		if to = q.To.Truncate(span); to.Before(*q.To) {
			to = to.Add(span)
		}
	}
	if from = to.Add(-span * time.Duration(q.Bucket.usual())); q.From != nil {
		from = q.From.Truncate(span)
		if q.To != nil && !q.From.Before(*q.To) {
			return from, to, fault.InvalidField("from", "out_of_range", "must be before to")
		}
	}
	// What is asked for beyond what can be there makes no rows.
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

// Series answers what a project did. It answers not_found, and out_of_range and invalid_value for a wrong query.
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

// each visits all counts of a project from one hour up to another. Of its own counts a server takes those that it
// holds, which are newer than those that it has written.
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

// copies are the counts of a project that this server holds, by hour.
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
