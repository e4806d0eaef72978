package engine

import "time"

// splitMemoryKey gives back what a memory's key was made of; not ok where it is the key of something else.
func splitMemoryKey(k []byte) (p incarnation, key string, ok bool) {
	return kindMemory.Split(k)
}

// splitMemoryTime gives back the memory that an entry of that index names.
func splitMemoryTime(k []byte) (at time.Time, key string) {
	_, at, key, _ = kindMemoryTime.Split(k)
	return at, key
}
