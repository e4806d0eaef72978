package e2e

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// FuzzWindows generates a transcript from any seed and size, posts its turns, and checks its windows.
func FuzzWindows(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint16(30), uint8(1), true)
	f.Add(uint64(2), uint8(1), uint16(50), uint8(2), true)
	f.Add(uint64(3), uint8(2), uint16(80), uint8(3), false)
	f.Add(uint64(4), uint8(0), uint16(400), uint8(30), true)
	f.Add(uint64(6), uint8(' '), uint16(76), uint8('H'), true)
	f.Add(uint64(2), uint8(1), uint16(50), uint8(','), true)
	f.Fuzz(func(t *testing.T, seed uint64, format uint8, messages uint16, step uint8, delegations bool) {
		walk(t, hard.Knobs{
			Seed: seed, Format: hard.Formats()[format%3], Messages: 1 + int(messages)%500, Delegations: delegations,
		}, 1+int(step)%40)
	})
}
