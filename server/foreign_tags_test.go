package server

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/memory"
)

// TestSameMemory compares tags as they are stored: each once.
func TestSameMemory(t *testing.T) {
	old := &memory.Memory{Content: "x", Tags: []string{"a", "b"}}
	if !sameMemory(old, &memory.Spec{Content: "x", Tags: []string{"a", "b", "a"}}) ||
		sameMemory(old, &memory.Spec{Content: "x", Tags: []string{"a", "c"}}) {
		t.Error("tags that are given twice are not compared as stored ones")
	}
}
