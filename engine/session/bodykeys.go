package session

import (
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// bodySeq reads the message's number out of a body key.
func bodySeq(key []byte) uint64 {
	_, seq, _ := records.Body.Split(key)
	return seq
}
