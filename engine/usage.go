package engine

import (
	"context"
	"errors"
	"time"
)

// usageLife is how long the usage of a day is kept.
const usageLife = 400 * 24 * time.Hour

// usage is what was used in one day.
type usage struct {
	Summaries SummaryUsage `json:"summaries"`
}

// SummaryUsage counts the calls of the provider that makes summaries, and the tokens that it says it used.
type SummaryUsage struct {
	Calls     int64 `json:"calls"`
	Failures  int64 `json:"failures"`
	TokensIn  int64 `json:"tokens_in"`
	TokensOut int64 `json:"tokens_out"`
}

func (u *usage) add(o usage) {
	u.Summaries.Calls += o.Summaries.Calls
	u.Summaries.Failures += o.Summaries.Failures
	u.Summaries.TokensIn += o.Summaries.TokensIn
	u.Summaries.TokensOut += o.Summaries.TokensOut
}

// Usage is what a tenant used: in all that is kept, 400 days, and day by day, newest first.
type Usage struct {
	usage
	Days []UsageDay `json:"days"`
}

// UsageDay is one day of it, in UTC.
type UsageDay struct {
	Date string `json:"date"`
	usage
}

// use adds to the tenant's usage, in the commit of what used it.
func (t *tx) use(u usage) error {
	key := kindUsage.Key(day(t.now))
	sum, err := getTx[usage](t, key)
	switch {
	case errors.Is(err, errDamaged): // counting the day anew is better than failing what was paid for
		t.e.log.Error("a day's usage is damaged; it is counted anew", "tenant", t.tenant)
	case err != nil:
		return err
	case sum == nil:
		t.put(kindExpiry.Key(t.now.Add(usageLife), key), []byte{0})
	}
	if sum != nil {
		u.add(*sum)
	}
	return t.putJSON(key, u)
}

// Usage tells what the tenant used.
func (e *Engine) Usage(ctx context.Context, c Caller) (Usage, error) {
	out := Usage{Days: []UsageDay{}}
	if err := c.wholeTenant(); err != nil {
		return out, err
	}
	rng := kindUsage.All()
	rng.Reverse = true
	for it, err := range each[usage](ctx, e, c.Tenant, rng) {
		if errors.Is(err, errDamaged) {
			e.log.Error("a day's usage is damaged; it is left out", "tenant", c.Tenant)
			continue
		}
		if err != nil {
			return out, err
		}
		day, _ := kindUsage.Split(it.Key)
		date := time.Unix(int64(day)*86400, 0).UTC().Format(time.DateOnly)
		out.Days = append(out.Days, UsageDay{date, *it.Value})
		out.add(*it.Value)
	}
	return out, nil
}
