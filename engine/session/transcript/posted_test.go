package transcript_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// A body of many tiny faulty elements is refused because of their number, before an error for each of them is
// allocated.
func TestTooManyPostedElements(t *testing.T) {
	for n, code := range map[int]string{16 << 10: "invalid_messages", 16<<10 + 1: "turn_too_large"} {
		in := make([]json.RawMessage, n)
		for i := range in {
			in[i] = json.RawMessage("1")
		}
		_, _, err := transcript.ParseMessages(chat.OpenAIChat, in)
		if e, ok := errors.AsType[*fault.Error](err); !ok || e.Code != code {
			t.Errorf("%d elements: %v, want %s", n, err, code)
		}
	}
}
