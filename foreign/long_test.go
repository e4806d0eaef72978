package foreign

import (
	"fmt"
	"strings"
	"testing"
)

// stretches is a sink that counts the stretches of conversations and checks that each follows the one before.
type stretches struct {
	t     *testing.T
	n     int
	after string
	last  string
}

func (s *stretches) Conversation(c *Conversation) (Added, error) {
	if s.n++; c.After != s.last {
		s.t.Errorf("stretch %d follows %q, and the one before ends with %q", s.n, c.After, s.last)
	}
	for i, turn := range c.Turns {
		if len(turn.Messages) > maxInTurn || turn.Continues != (i == 0 && s.n > 1 && s.after == "in a turn") {
			s.t.Errorf("stretch %d has a turn of %d messages, continues: %t", s.n, len(turn.Messages), turn.Continues)
		}
		s.last = turn.Messages[len(turn.Messages)-1].Sources[0]
	}
	return Added{}, nil
}

func (s *stretches) Memory(string, *Memory) (Added, error) { return Added{}, nil }

// TestLongConversations reads a conversation of one long turn, and one of many.
func TestLongConversations(t *testing.T) {
	for _, c := range []struct {
		begins int // how many messages apart turns begin
		want   int
		after  string
	}{{100_000, 5, "in a turn"}, {10, 1, ""}} {
		var text strings.Builder
		text.WriteString(`{"messages":[`)
		for i := range 9000 {
			role := "assistant"
			if i%c.begins == 0 {
				role = "user"
			}
			fmt.Fprintf(&text, `{"role":%q,"content":"message %d"},`, role, i)
		}
		text.WriteString(`{"role":"assistant","content":"the end"}]}`)
		sink := &stretches{t: t, after: c.after}
		if _, err := Read([]File{file("f", []byte(text.String()))}, sink, Options{}); err != nil || sink.n != c.want {
			t.Errorf("got %d stretches, want %d: %v", sink.n, c.want, err)
		}
	}
}
