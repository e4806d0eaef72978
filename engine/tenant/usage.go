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

// UsageRecord is what is stored of one day.
type UsageRecord struct {
	Summaries  SummaryUsage   `json:"summaries"`
	Embeddings EmbeddingUsage `json:"embeddings,omitzero"`
}

// SummaryUsage counts the calls of the provider that makes summaries, and the tokens that it says it used.
type SummaryUsage struct {
	Calls     int64 `json:"calls"`
	Failures  int64 `json:"failures"`
	TokensIn  int64 `json:"tokens_in"`
	TokensOut int64 `json:"tokens_out"`
}

// EmbeddingUsage counts the calls of the provider that makes vectors, and the tokens that it says it used.
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

// Usage is what a tenant used: in all the days that are kept, 400 of them, and day by day, newest first.
type Usage struct {
	UsageRecord
	Days []UsageDay `json:"days"`
}

// UsageDay is what was used in one day, in UTC.
type UsageDay struct {
	Date string `json:"date"` // as 2026-03-05
	UsageRecord
}

// Use adds to the tenant's usage of the day, in the commit of what used it.
func Use(t *records.Tx, u UsageRecord) error {
	key := records.Usage.Key(records.Day(t.Now))
	sum, err := records.GetTx[UsageRecord](t, key)
	switch {
	case errors.Is(err, records.ErrDamaged): // counting the day anew is better than failing what was paid for
		t.DB.Log.Error("a day's usage is damaged; it is counted anew", "tenant", t.Tenant)
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

// Usage tells what the tenant used. It answers key_narrowed where the key does not reach the whole tenant.
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
