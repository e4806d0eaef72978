package index

import (
	"encoding/binary"

	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// freshEpoch reads the epoch out of a fresh document's key.
func freshEpoch(key []byte) uint32 {
	_, _, epoch, _, _, _ := records.RecallFresh.Split(key)
	return epoch
}

func appendPlace(key []byte, at rank.Place) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(key, at.Stream), at.Pos)
}

// splitPlace reads the place that a key ends with.
func splitPlace(key []byte) rank.Place {
	end := key[len(key)-16:]
	return rank.Place{Stream: binary.BigEndian.Uint64(end), Pos: binary.BigEndian.Uint64(end[8:])}
}
