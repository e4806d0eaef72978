package engine

import (
	"encoding/binary"

	"github.com/seed-0906e6bc/mneme/engine/recall"
)

// freshEpoch reads the epoch out of a fresh document's key.
func freshEpoch(key []byte) uint32 {
	_, _, epoch, _, _, _ := kindRecallFresh.Split(key)
	return epoch
}

func appendPlace(key []byte, at recall.Place) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(key, at.Stream), at.Pos)
}

// splitPlace reads the place that a key ends with.
func splitPlace(key []byte) recall.Place {
	end := key[len(key)-16:]
	return recall.Place{Stream: binary.BigEndian.Uint64(end), Pos: binary.BigEndian.Uint64(end[8:])}
}
