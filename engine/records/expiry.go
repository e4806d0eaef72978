package records

import (
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// ExpiredRange covers the expiry index up to now; splitExpiry gives back the key that an entry names.
func ExpiredRange(now time.Time, limit int) store.Range {
	rng := Expiry.Before(now)
	rng.Limit = limit
	return rng
}

func SplitExpiry(key []byte) []byte {
	_, of, _ := Expiry.Split(key)
	return of
}
