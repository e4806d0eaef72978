package tenant

import (
	"context"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// usageLife is how long the usage of a day is kept.
const usageLife = 400 * 24 * time.Hour

// UsageRecord is the stored usage of one day.
type UsageRecord struct {
	Summaries  SummaryUsage   `json:"summaries"`
	Embeddings EmbeddingUsage `json:"embeddings,omitzero"`
}

// SummaryUsage counts calls of the provider that writes summaries, and the tokens that it reported.
type SummaryUsage struct {
	Calls     int64 `json:"calls"`
	Failures  int64 `json:"failures"`
	TokensIn  int64 `json:"tokens_in"`
	TokensOut int64 `json:"tokens_out"`
}

// EmbeddingUsage counts calls of the provider that computes vectors, and the tokens that it reported.
type EmbeddingUsage struct {
	Calls    int64 `json:"calls"`
	Failures int64 `json:"failures"`
	Tokens   int64 `json:"tokens"`
}

// Add adds other usage.
func (u *EmbeddingUsage) Add(o EmbeddingUsage) {
	u.Calls, u.Failures, u.Tokens = u.Calls+o.Calls, u.Failures+o.Failures, u.Tokens+o.Tokens
}

func (u *UsageRecord) add(o UsageRecord) {
	u.Summaries.Calls += o.Summaries.Calls
	u.Summaries.Failures += o.Summaries.Failures
	u.Summaries.TokensIn += o.Summaries.TokensIn
	u.Summaries.TokensOut += o.Summaries.TokensOut
	u.Embeddings.Add(o.Embeddings)
}

// Usage is the usage of a tenant: the total of the 400 days that are kept, and day by day, newest first.
type Usage struct {
	UsageRecord
	Days []UsageDay `json:"days"`
}

// UsageDay is the usage of one day, in UTC.
type UsageDay struct {
	Date string `json:"date"` // such as 2026-03-05
	UsageRecord
}

// Use adds to the tenant's usage of the day, in the commit of the work that caused it.
func Use(t *records.Tx, u UsageRecord) error {
	key := records.Usage.Key(records.Day(t.Now))
	sum, err := records.GetTx[UsageRecord](t, key)
	switch {
	case errors.Is(err, records.ErrDamaged): // starting the day's count again is better than failing work that was paid for
		t.DB.Log.Error("a day's usage is damaged; counting starts again", "tenant", t.Tenant)
	case err != nil:
		return err
	case sum == nil:
		t.Put(records.Expiry.Key(t.Now.Add(usageLife), key), []byte{0})
	}
	if sum != nil {
		u.add(*sum)
	}
	return t.PutJSON(key, u)
}

// Usage returns a tenant's usage. It returns key_narrowed if the key does not reach the whole tenant.
func (svc *Service) Usage(ctx context.Context, c ident.Caller) (Usage, error) {
	out := Usage{Days: []UsageDay{}}
	if err := c.WholeTenant(); err != nil {
		return out, err
	}
	rng := records.Usage.All()
	rng.Reverse = true
	for it, err := range records.Each[UsageRecord](ctx, svc.db, c.Tenant, rng) {
		if errors.Is(err, records.ErrDamaged) {
			svc.db.Log.Error("a day's usage is damaged; it is left out", "tenant", c.Tenant)
			continue
		}
		if err != nil {
			return out, err
		}
		day, _ := records.Usage.Split(it.Key)
		date := time.Unix(int64(day)*86400, 0).UTC().Format(time.DateOnly)
		out.Days = append(out.Days, UsageDay{date, *it.Value})
		out.add(*it.Value)
	}
	return out, nil
}
