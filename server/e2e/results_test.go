package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// document returns a text of the given number of bytes, in which no two lines are equal.
func document(bytes int) string {
	var b strings.Builder
	for i := 0; b.Len() < bytes; i++ {
		fmt.Fprintf(&b, "%d: the committee of %d members met in room %d\n", i, i%17, i*i%389)
	}
	return b.String()[:bytes]
}

// readingFiles returns a call of several tools at once with results of these sizes.
func readingFiles(id string, sizes []int) []object {
	var calls, results []object
	for i, size := range sizes {
		call := fmt.Sprint(id, "_", i)
		calls = append(calls, object{"id": call, "type": "function",
			"function": object{"name": "read_file", "arguments": fmt.Sprintf(`{"part":%d}`, i)}})
		results = append(results, result(call, document(size)))
	}
	return append([]object{{"role": "assistant", "content": nil, "tool_calls": calls}}, results...)
}

// Tool results of up to 1 MB fit into windows with default settings, in each format, pending or stored, alone or with
// others. Providers accept the windows, they replay, and later windows cut the same results in the same way.
func TestLargeToolResults(t *testing.T) {
	for _, sizes := range [][]int{{36 << 10}, {100 << 10}, {1 << 20}, {36 << 10, 36 << 10, 36 << 10},
		{100 << 10, 500, 1 << 20, 36 << 10}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			c := own(t)
			c.turn("", user("good morning"), assistant("Good morning.")).want(201)
			turn := append([]object{user("read the files")}, readingFiles("c", sizes)...)
			formats := []hard.Format{hard.Chat, hard.Anthropic, hard.Responses}
			cut := map[hard.Format]string{}
			for _, format := range formats {
				cut[format] = c.largeWindow(format, len(sizes), turn)
			}
			posted := append(turn, assistant("They are minutes."))
			c.post(c.path("/turns"), object{"messages": posted}).want(201)
			for _, format := range formats {
				if again := c.largeWindow(format, len(sizes), []object{user("of which year?")}); again != cut[format] {
					t.Errorf("%s: results are cut otherwise when they are stored", format)
				}
			}
			c.turn("", user("of which year?"), assistant("They do not say.")).want(201)
			for _, format := range formats {
				if again := c.largeWindow(format, len(sizes), []object{user("and by whom?")}); again != cut[format] {
					t.Errorf("%s: results are cut otherwise in a later window", format)
				}
			}
		})
	}
}

// largeWindow asks for a window with a pending turn, sends it to a provider, and returns the results in it.
func (c *conversation) largeWindow(format hard.Format, results int, turn []object) string {
	c.t.Helper()
	var chat []json.RawMessage
	for _, m := range turn {
		b, err := json.Marshal(m)
		if err != nil {
			c.t.Fatal(err)
		}
		chat = append(chat, b)
	}
	pending, err := providers.FromChat(providers.API(format), chat)
	if err != nil {
		c.t.Fatal(err)
	}
	var w window
	r := c.post(c.path("/context"), object{"format": format, "pending": pending, "explain": true}).want(200)
	r.into(&w)
	if w.Usage.Tokens > 8000 || w.Usage.Tokens < 2500 {
		c.t.Errorf("%s: %d tokens", format, w.Usage.Tokens)
	}
	var system json.RawMessage
	if w.System != "" {
		if system, err = json.Marshal(w.System); err != nil {
			c.t.Fatal(err)
		}
	}
	body := providers.Body(providers.API(format), asked[format], w.Messages, system, []string{"read_file"})
	if refusal := refusedBy(format, body); refusal != nil {
		c.t.Errorf("%s: %v", format, refusal)
	}
	var replay struct{ Equal bool }
	c.post(c.path("/decisions/"+w.DecisionID+"/replay"), nil).want(200).into(&replay)
	if !replay.Equal {
		c.t.Errorf("%s: it replays to another window", format)
	}
	entries, fault := flatten(format, w.Messages)
	if fault != "" {
		c.t.Fatal(fault)
	}
	var shown []string
	for _, e := range entries {
		if e.role == "tool" {
			shown = append(shown, e.text)
		}
	}
	if len(shown) != results {
		c.t.Fatalf("%s: %d results of %d", format, len(shown), results)
	}
	return strings.Join(shown, "\n\n")
}

// A tool's result that holds a document, a file or a search result of 80 KB is cut like a text: pending, stored and a turn
// later, in each format. Providers take the windows, and they replay.
func TestLargeDocuments(t *testing.T) {
	text := document(80 << 10)
	blocks := []object{{"type": "document", "title": "Minutes", "citations": object{"enabled": true},
		"source": object{"type": "text", "media_type": "text/plain", "data": text}},
		{"type": "search_result", "source": "https://example.com", "title": "Minutes", "citations": object{"enabled": true},
			"content": []object{{"type": "text", "text": text}}}}
	file := object{"type": "input_file", "filename": "minutes.txt",
		"file_data": "data:text/plain;base64," + base64.StdEncoding.EncodeToString([]byte(text))}
	anthropic := func(block object) []object {
		return []object{user("read"), {"role": "assistant", "content": []object{{"type": "tool_use", "id": "c", "name": "read_file",
			"input": object{}}}}, {"role": "user", "content": []object{{"type": "tool_result", "tool_use_id": "c",
			"content": []object{block}}}}}
	}
	for _, test := range []struct {
		name   string
		format hard.Format
		turn   []object
	}{
		{"document", hard.Anthropic, anthropic(blocks[0])},
		{"search result", hard.Anthropic, anthropic(blocks[1])},
		{"file", hard.Responses, []object{user("read"), {"type": "function_call", "call_id": "c", "name": "read_file",
			"arguments": "{}"}, {"type": "function_call_output", "call_id": "c", "output": []object{file}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := own(t)
			pending := c.documentWindow(test.format, object{"pending": test.turn})
			c.post(c.path("/turns"), object{"format": test.format, "messages": test.turn}).want(201)
			if stored := c.documentWindow(test.format, object{}); stored != pending {
				t.Error("the stored result is cut otherwise")
			}
			c.turn("", assistant("They are minutes."), user("of which year?")).want(201)
			for _, format := range []hard.Format{hard.Chat, hard.Anthropic, hard.Responses} {
				if test.format == hard.Anthropic || format == test.format { // others show a file by its name
					c.documentWindow(format, object{})
				}
			}
		})
	}
}

// documentWindow asks for a window, sends it to a provider, and returns its messages up to the result.
func (c *conversation) documentWindow(format hard.Format, ask object) string {
	c.t.Helper()
	ask["format"] = format
	var w window
	c.post(c.path("/context"), ask).want(200).into(&w)
	if w.Usage.Tokens > 8000 || w.Usage.Tokens < 2500 {
		c.t.Errorf("%s: %d tokens", format, w.Usage.Tokens)
	}
	body := providers.Body(providers.API(format), asked[format], w.Messages, nil, []string{"read_file"})
	if refusal := refusedBy(format, body); refusal != nil {
		c.t.Errorf("%s: %v", format, refusal)
	}
	var replay struct{ Equal bool }
	c.post(c.path("/decisions/"+w.DecisionID+"/replay"), nil).want(200).into(&replay)
	if !replay.Equal {
		c.t.Errorf("%s: it replays to another window", format)
	}
	shown, err := json.Marshal(w.Messages[:3])
	if err != nil {
		c.t.Fatal(err)
	}
	return string(shown)
}
