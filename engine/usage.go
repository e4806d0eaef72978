package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
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
	key := usageKey(day(t.now))
	var sum usage
	got, err := t.get(key)
	if errors.Is(err, errDamaged) { // better a day counted anew than what was paid for thrown away
		t.e.log.Error("a day's usage is damaged; it is counted anew", "tenant", t.tenant)
		sum.add(u)
		return t.putJSON(key, sum)
	}
	if err != nil {
		return err
	}
	if got[0].Value == nil {
		t.put(expiryKey(t.now.Add(usageLife), key), []byte{0})
	} else if err := json.Unmarshal(got[0].Value, &sum); err != nil {
		return err
	}
	sum.add(u)
	return t.putJSON(key, sum)
}

// Usage tells what the tenant used.
func (e *Engine) Usage(ctx context.Context, c Caller) (Usage, error) {
	out := Usage{Days: []UsageDay{}}
	if err := c.wholeTenant(); err != nil {
		return out, err
	}
	rng := prefixRange(usageKey(0)[:2])
	rng.Reverse = true
	r, err := e.store.Read(ctx, c.Tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return out, err
	}
	for _, it := range r.Ranges[0] {
		if it.Damaged {
			e.log.Error("a day's usage is damaged; it is left out", "tenant", c.Tenant)
			continue
		}
		var u usage
		if err := json.Unmarshal(it.Value, &u); err != nil {
			return out, err
		}
		date := time.Unix(int64(binary.BigEndian.Uint16(it.Key[2:]))*86400, 0).UTC().Format(time.DateOnly)
		out.Days = append(out.Days, UsageDay{date, u})
		out.add(u)
	}
	return out, nil
}
