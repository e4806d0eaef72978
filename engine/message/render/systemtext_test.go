package render_test

import (
	"encoding/json"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/render"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ posted, text, asText, asInput string }{
		{`"You help."`, "You help.", `"You help."`, `"You help."`},
		{`null`, "", `""`, `""`},
		{`[]`, "", `""`, `""`},
		{`[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":" "},` +
			`{"text":"b","type":"text"}]`, "a\n\nb",
			`[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"text":"b","type":"text"}]`,
			`[{"type":"input_text","text":"a","cache_control":{"type":"ephemeral"}},{"text":"b","type":"input_text"}]`},
		{`[{"type":"input_text","text":"a"}]`, "a", `[{"type":"text","text":"a"}]`, `[{"type":"input_text","text":"a"}]`},
	} {
		p, err := render.ParseSystem(json.RawMessage(c.posted))
		text, input := string(p.AppendContent(nil, "text")), string(p.AppendContent(nil, "input_text"))
		if err != nil || p.Text != c.text || text != c.asText || input != c.asInput {
			t.Errorf("%s: %q, %s, %s, %v", c.posted, p.Text, text, input, err)
		}
	}
	for _, posted := range []string{`7`, `{}`, `["a"]`, `[{"type":"image","text":"a"}]`, `[{"type":"text"}]`,
		`[{"text":"a"}]`, `[{"type":"text","text":7}]`, `[{"type":"text","text":"a","text":"b"}]`} {
		if _, err := render.ParseSystem(json.RawMessage(posted)); err == nil {
			t.Errorf("%s is taken", posted)
		}
	}
}
