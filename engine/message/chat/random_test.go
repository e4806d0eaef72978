package chat_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
)

// TestRandomWindows checks the guarantee of FuzzWindow for histories of several turns in mixed formats, made of values
// that are likely to collide: few ids, so that they repeat, and edge cases of texts and arguments.
func TestRandomWindows(t *testing.T) {
	for seed := range uint64(1500) {
		g := generator{rand.New(rand.NewPCG(seed, 1))}
		var history []chat.Message
		var posted []string
		for range 1 + g.IntN(5) {
			f := messageFormats[g.IntN(3)]
			turn := g.turn(f)
			msgs, ok := parseAll(f, turn)
			if !ok {
				continue // for example, an id twice in one message
			}
			checkStored(t, f, msgs)
			history = append(history, msgs...)
			posted = append(posted, turn)
		}
		edits := g.Uint64()
		if seed%2 == 0 {
			edits = 0
		}
		if !t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { checkLaw(t, history, g.Uint64(), edits) }) {
			t.Fatalf("posted\n%s", strings.Join(posted, "\n"))
		}
	}
}

// generator makes posted turns.
type generator struct{ *rand.Rand }

func (g generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g generator) id() string { return g.pick("c", "c", "d", "c_2", "c_5", "a.b", "a_b", "日") }

func (g generator) text() string {
	return g.pick(`""`, `" \n"`, `"hi"`, `"line\ntwo"`, `"\u003ctag\u003e \ud83d\ude00"`, `"{\"a\":1}"`)
}

func (g generator) arguments() string {
	return g.pick(`"{}"`, `"{\"a\":[1,2.50]}"`, `""`, `"[1]"`, `"not json"`, `" {\"b\": null} "`, `"null"`)
}

func (g generator) own() string {
	return g.pick("", "", "", `,"agent":"main"`, `,"delegation_id":"d1"`, `,"tags":["t"]`,
		`,"type":"a2a","from_agent":"a","to_agent":"b"`)
}

// some joins a few values made one by one.
func (g generator) some(most int, one func() string) string {
	var values []string
	for range g.IntN(most + 1) {
		values = append(values, one())
	}
	return strings.Join(values, ",")
}

func (g generator) turn(f chat.Format) string {
	one := map[chat.Format]func() string{
		chat.OpenAIChat: g.openai, chat.AnthropicMessages: g.anthropic, chat.OpenAIResponses: g.item,
	}[f]
	return "[" + g.some(6, one) + "]"
}

func (g generator) openai() string {
	part := func() string {
		return g.pick(`{"type":"text","text":`+g.text()+`}`, `{"type":"image_url","image_url":{"url":"https://x/y"}}`,
			`{"type":"refusal","refusal":"no"}`, `{"type":"file","file":{}}`)
	}
	content := g.pick(g.text(), "null", "["+g.some(3, part)+"]")
	switch g.IntN(4) {
	case 0:
		return `{"role":"user","content":` + content + g.own() + `}`
	case 1:
		return `{"role":"assistant"` + g.own() + `,"content":` + content + `}`
	case 2:
		call := func() string {
			return `{"id":"` + g.id() + `","type":"function","function":{"name":"f","arguments":` + g.arguments() + `}}`
		}
		return `{"role":"assistant","content":` + g.pick("null", g.text()) + `,"tool_calls":[` + g.some(3, call) + `]}`
	}
	return `{"role":"tool","content":` + g.text() + `,"tool_call_id":"` + g.id() + `"}`
}

func (g generator) anthropic() string {
	if g.IntN(2) == 0 {
		use := func() string {
			return g.pick(g.block(), `{"type":"thinking","thinking":"t","signature":"s"}`,
				`{"type":"tool_use","id":"`+g.id()+`","name":"f","input":`+g.pick(`{}`, `{"a":1}`, `[]`, `null`)+`}`)
		}
		return `{"role":"assistant","content":` + g.pick(g.text(), "["+g.some(4, use)+"]") + g.own() + `}`
	}
	result := func() string {
		return g.pick(g.block(), `{"type":"tool_result","tool_use_id":"`+g.id()+`","is_error":true,"content":`+
			g.pick(g.text(), "null", "["+g.some(2, g.block)+"]")+`}`)
	}
	return `{"role":"user","content":` + g.pick(g.text(), "["+g.some(4, result)+"]") + g.own() + `}`
}

// block makes a block of Anthropic's that is no call, result or thinking.
func (g generator) block() string {
	return g.pick(`{"type":"text","text":`+g.text()+`}`,
		`{"type":"image","source":{"type":"base64","media_type":"m","data":"QQ=="}}`,
		`{"type":"document","source":{}}`, g.document(), g.document())
}

// document makes one of Anthropic's documents or search results. Texts are in brackets, as the names are by which formats
// show other parts.
func (g generator) document() string {
	text := g.pick(`""`, `"[a document]"`, `"[a document of many words, in \u65e5\u672c\u8a9e and in English]"`)
	source := g.pick(`{"type":"text","media_type":"text/plain","data":`+text+`}`, `{"type":"content","content":`+text+`}`,
		`{"type":"content","content":[{"type":"text","text":`+text+`},{"type":"image","source":{"type":"url","url":"u"}}]}`,
		`{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}`)
	more := g.pick("", `,"title":"[t]"`, `,"citations":{"enabled":true}`, `,"cache_control":{"type":"ephemeral"}`)
	if g.IntN(3) == 0 {
		return `{"type":"search_result","source":"s","title":"[t]","content":[{"type":"text","text":` + text + `}]` +
			g.pick("", `,"citations":{"enabled":true}`) + `}`
	}
	return `{"type":"document","source":` + source + more + `}`
}

// itemPart makes parts of Responses items, with texts of a type.
func (g generator) itemPart(typ string) func() string {
	return func() string {
		file := g.pick("", "data:text/plain;base64,aGFsbG8=", "5pel5pys", "/w==", "JVBERi0=")
		return g.pick(`{"type":"`+typ+`","text":`+g.text()+`}`, `{"type":"input_image","image_url":"https://x/y"}`,
			`{"type":"input_file","filename":"a","file_data":"`+file+`"}`)
	}
}

func (g generator) item() string {
	switch g.IntN(6) {
	case 0:
		return `{"role":"user","content":` + g.pick(g.text(), "["+g.some(3, g.itemPart("input_text"))+"]") + g.own() + `}`
	case 1:
		return `{"type":"message","role":"assistant","content":` + g.pick(g.text(),
			"["+g.some(2, g.itemPart("output_text"))+"]") + `}`
	case 2:
		return `{"type":"reasoning","id":"r","summary":[]},{"role":"assistant","content":` + g.text() + `}`
	case 3:
		return `{"type":"function_call_output","call_id":"` + g.id() + `","output":` +
			g.pick(g.text(), "["+g.some(2, g.itemPart("input_text"))+"]") + `}`
	}
	return g.pick("", `{"type":"reasoning","id":"r"},`) + `{"type":"function_call","call_id":"` + g.id() +
		`","name":"f","arguments":` + g.arguments() + g.pick("", `,"delegation_id":"d1"`) + `}`
}
