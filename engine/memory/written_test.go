package memory_test

import (
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/memory"
)

// TestWritten checks the times of memories that another program wrote.
func TestWritten(t *testing.T) {
	k := enginetest.New(t)
	now, past := k.Clock(), time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	for _, c := range []struct {
		key                                        string
		created, updated, wantCreated, wantUpdated time.Time
	}{
		{"a", past, past.Add(day), past, past.Add(day)},
		{"a", past.Add(-day), past.Add(-day), past, past.Add(day)}, // an older version comes later
		{"b", time.Time{}, past, past, past},
		{"c", past.Add(day), past, past.Add(day), past.Add(day)},
		{"d", now.Add(day), now.Add(day), now, now},
		{"e", time.Unix(0, 0), time.Time{}, now, now},
	} {
		m := k.Remember(memory.Spec{Key: c.key, Content: "content " + c.created.String(), Created: c.created, Updated: c.updated})
		if !m.CreatedAt.Equal(c.wantCreated) || !m.UpdatedAt.Equal(c.wantUpdated) {
			t.Errorf("%+v gives %v and %v", c, m.CreatedAt, m.UpdatedAt)
		}
	}
	k.Sound()
}
