package memory

import (
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// SplitKey gives back what a memory's key was made of; not ok where it is the key of something else.
func SplitKey(k []byte) (p ident.Incarnation, key string, ok bool) {
	return records.Memory.Split(k)
}

// splitTime gives back the memory that an entry of that index names.
func splitTime(k []byte) (at time.Time, key string) {
	_, at, key, _ = records.MemoryTime.Split(k)
	return at, key
}
