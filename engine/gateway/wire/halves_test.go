package wire

import (
	"fmt"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// TestSplitPairs folds streams whose events split a UTF-16 pair, and texts that only look as if they did.
func TestSplitPairs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pieces []string // as JSON strings, without quotes
		want   string
	}{
		{[]string{`a \ud83d`, `\ude00 b`}, "a \U0001F600 b"},
		{[]string{`\uD83D`, `\uDE00\uD83D`, `\uDE01`}, "\U0001F600\U0001F601"},
		{[]string{`x`, `\ud83d\ude00`, `y`}, "x\U0001F600y"},
		{[]string{`\\ud83d`, `\\ude00`}, `\ud83d\ude00`},
		{[]string{`\"`, `\ud83d`, `\ude00\"`}, "\"\U0001F600\""},
		{[]string{`\\\ud83d`, `\ude00`}, "\\\U0001F600"},
		{[]string{`\ude00`, `z`}, "\ufffdz"},
	} {
		for _, f := range []chat.Format{chat.OpenAIChat, chat.AnthropicMessages} {
			folder := New(f)
			event := func(format string, a ...any) { folder.Add(Event{Data: []byte(fmt.Sprintf(format, a...))}) }
			if f == chat.AnthropicMessages {
				event(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
			}
			for _, piece := range test.pieces {
				if f == chat.AnthropicMessages {
					event(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}`, piece)
				} else {
					event(`{"choices":[{"index":0,"delta":{"content":"%s"}}]}`, piece)
				}
			}
			if f == chat.AnthropicMessages {
				event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`)
				event(`{"type":"message_stop"}`)
			} else {
				event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
				event(`[DONE]`)
			}
			reply, err := folder.Reply()
			if err != nil {
				t.Fatal(err)
			}
			parsed, _, bad := chat.Parse(f, reply.Messages)
			if len(bad) > 0 || parsed[0].Text != test.want {
				t.Errorf("%v: %q came to %q (%v)", f, test.pieces, parsed[0].Text, bad)
			}
			if rawjson.LoneSurrogate(reply.Messages[0]) {
				t.Errorf("%s has half a pair", reply.Messages[0])
			}
		}
	}
}
