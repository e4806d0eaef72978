package engine

import (
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// expiredRange covers the expiry index up to now; splitExpiry gives back the key that an entry names.
func expiredRange(now time.Time, limit int) store.Range {
	rng := kindExpiry.Before(now)
	rng.Limit = limit
	return rng
}

func splitExpiry(key []byte) []byte {
	_, of, _ := kindExpiry.Split(key)
	return of
}
