package tokens_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
)

// budget is a meter with a limited amount of fuel.
type budget struct{ fuel int }

func (b *budget) Spend(n int) error {
	if b.fuel -= n; b.fuel < 0 {
		return errors.New("no fuel")
	}
	return nil
}

// A text that many records show is counted once, in both of its forms. Nothing is counted that was not paid for.
func TestCountsArePaidFor(t *testing.T) {
	counted := 0
	meter := &budget{1 << 20}
	count := tokens.Metered(meter, func(s string, _ func() bool) (int, bool) { counted += len(s); return len(s), true })
	text := strings.Repeat("some words ", 1000)
	for range 400 {
		if count(text) != len(text) || count(" "+text) != len(text)+1 {
			t.Fatal("counted wrongly")
		}
	}
	if counted != 2*len(text)+1 || 1<<20-meter.fuel != 16*counted {
		t.Errorf("%d bytes counted, %d fuel spent", counted, 1<<20-meter.fuel)
	}
	before := counted
	if count(strings.Repeat("x", 1<<20)) != 0 || count("more") != 0 || counted != before {
		t.Error("counted without fuel")
	}
}
