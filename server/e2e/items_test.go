package e2e

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// shownWindow is the part of a window's answer that goes to the provider.
type shownWindow struct {
	Decision string            `json:"decision_id"`
	Messages []json.RawMessage `json:"messages"`
	System   json.RawMessage   `json:"system"`
	Usage    struct{ Tokens int }
}

// window asks for a window of a session, and replays its decision.
func (c client) window(session string, ask object) shownWindow {
	c.t.Helper()
	ask["session_id"] = session
	var w shownWindow
	c.post("/api/v1/projects/default/context", ask).want(200).into(&w)
	var again struct{ Equal bool }
	c.post("/api/v1/projects/default/decisions/"+w.Decision+"/replay", nil).want(200).into(&again)
	if !again.Equal {
		c.t.Errorf("%v: the replay differs", ask)
	}
	return w
}

// list returns messages or items as one JSON array.
func list(messages []json.RawMessage) string {
	parts := make([]string, len(messages))
	for i, m := range messages {
		parts[i] = string(m)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// tell posts a turn.
func (c client) tell(session string, format hard.Format, messages string, more ...string) reply {
	c.t.Helper()
	body := sprintf(`{"session_id":%q,"format":%q,"messages":%s%s}`, session, format, messages, strings.Join(more, ""))
	return c.do("POST", "/api/v1/projects/default/turns", []byte(body))
}

// accepted fails the test if the format's provider refuses a window.
func accepted(t *testing.T, format hard.Format, w shownWindow, tools ...string) {
	t.Helper()
	body := providers.Body(providers.API(format), asked[format], w.Messages, w.System, append(tools, "lookup"))
	if refusal := refusedBy(format, body); refusal != nil {
		t.Errorf("%s: %s\n%s", format, refusal, clip(string(body), 2000))
	}
}

const hello = `{"role":"user","content":"hello"}`

// itemsOfResponses are items as clients send them, named after what is special about each.
var itemsOfResponses = map[string]string{
	"web search": `{"type":"reasoning","summary":[]},{"type":"web_search_call","id":"ws_1","status":"completed",
		"action":{"type":"search","query":"q"}},{"type":"message","role":"assistant","id":"msg_1","status":"completed",
		"content":[{"type":"output_text","text":"found","annotations":[]}]}`,
	"file search and interpreter": `{"type":"file_search_call","id":"fs_1","queries":["q"],"status":"completed","results":null},
		{"type":"code_interpreter_call","id":"ci_1","code":"1+1","container_id":"c","outputs":[],"status":"completed"},
		{"role":"assistant","content":"two"}`,
	"picture": `{"type":"image_generation_call","id":"ig_1","status":"completed","result":"aGk="}`,
	"custom tool": `{"type":"custom_tool_call","call_id":"call_1","name":"patch","input":"*** Begin"},
		{"type":"custom_tool_call_output","call_id":"call_1","output":"done"}`,
	"shells": `{"type":"local_shell_call","id":"lsh_1","call_id":"call_1","status":"completed","action":{"type":"exec",
		"command":["ls"],"env":{}}},{"type":"local_shell_call_output","call_id":"call_1","output":"a b"},
		{"type":"shell_call","call_id":"call_2","action":{"commands":["pwd"]},"status":"completed"},
		{"type":"shell_call_output","call_id":"call_2","output":[{"stdout":"/","stderr":"warn","outcome":{"type":"exit","exit_code":0}}]}`,
	"patch": `{"type":"apply_patch_call","call_id":"call_1","status":"completed","operation":{"type":"delete_file","path":"a"}},
		{"type":"apply_patch_call_output","call_id":"call_1","status":"completed","output":"ok"}`,
	"computer": `{"type":"computer_call","id":"cu_1","call_id":"call_1","status":"completed","action":{"type":"screenshot"},
		"pending_safety_checks":[]},{"type":"computer_call_output","call_id":"call_1","output":{"type":"computer_screenshot",
		"image_url":"data:image/png;base64,aGk="}}`,
	"MCP": `{"type":"mcp_list_tools","id":"mcpl_1","server_label":"s","tools":[]},
		{"type":"mcp_approval_request","id":"mcpr_1","server_label":"s","name":"f","arguments":"{}"},
		{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true},
		{"type":"mcp_call","id":"mcp_1","server_label":"s","name":"f","arguments":"{}","output":"r","approval_request_id":"mcpr_1"},
		{"role":"assistant","content":"r"}`,
	"tool search": `{"type":"tool_search_call","call_id":null,"execution":"server","arguments":{"paths":["a"]},"status":"completed"},
		{"type":"tool_search_output","call_id":null,"execution":"server","tools":[],"status":"completed"},
		{"type":"function_call","call_id":"call_1","name":"lookup","arguments":"{}"},
		{"type":"function_call_output","call_id":"call_1","output":[{"type":"input_text","text":"x"}]}`,
	"compaction": `{"type":"compaction","id":"cmp_1","encrypted_content":"opaque"},{"role":"assistant","content":"go on"}`,
	"settings": `{"type":"configuration_update","reasoning":{"effort":"low"}},{"type":"additional_tools","role":"developer",
		"tools":[]},{"role":"assistant","content":"yes"}`,
	"references": `{"type":"item_reference","id":"rs_1"},{"type":"function_call","id":"fc_1","call_id":"call_1","name":"lookup",
		"arguments":"{}"},{"type":"function_call_output","call_id":"call_1","output":"r"},{"type":"item_reference","id":"msg_1"}`,
	"not invented yet": `{"type":"reasoning","id":"rs_1","summary":[]},{"type":"dream","id":"dr_1","reasoning":{"depth":2},"x":[1.0]},
		{"type":"dream_call","call_id":"call_1","plan":{}},{"type":"dream_call_output","call_id":"call_1","output":{"a":1}}`,
}

// notForAll are items that the default model of package providers refuses: a setting of newer models, ids that only a
// server with stored items knows, and invented types.
var notForAll = []string{"settings", "references", "not invented yet"}

// Items of any type are returned unchanged, however often a window is asked for, and windows of other formats show them
// in a form that their providers accept.
func TestItemsOfAnyType(t *testing.T) {
	for name, posted := range itemsOfResponses {
		t.Run(name, func(t *testing.T) {
			c, session := shared(t), mneme.unique("items")
			var items []json.RawMessage
			if err := json.Unmarshal([]byte("["+hello+","+posted+`,{"role":"user","content":"and then?"}]`), &items); err != nil {
				t.Fatal(err)
			}
			c.tell(session, hard.Responses, list(items)).want(201)
			if w := c.window(session, object{"format": hard.Responses}); list(w.Messages) != list(items) {
				t.Errorf("got  %s\nwant %s", list(w.Messages), list(items))
			} else if !slices.Contains(notForAll, name) {
				accepted(t, hard.Responses, w)
			}
			for _, format := range []hard.Format{hard.Chat, hard.Anthropic} {
				accepted(t, format, c.window(session, object{"format": format}))
			}
		})
	}
}

// A call of any type without a result, or with one in another format, gets a result of its own type in the window.
func TestResultsSuitTheirCalls(t *testing.T) {
	for call, name := range map[string]string{
		`{"type":"custom_tool_call","call_id":"call_1","name":"patch","input":"x"}`:                    "custom_tool_call_output",
		`{"type":"local_shell_call","call_id":"call_1","action":{"type":"exec","command":[]}}`:         "local_shell_call_output",
		`{"type":"shell_call","call_id":"call_1","action":{"commands":["ls"]}}`:                        "shell_call_output",
		`{"type":"apply_patch_call","call_id":"call_1","operation":{"type":"delete_file"}}`:            "apply_patch_call_output",
		`{"type":"computer_call","call_id":"call_1","action":{"type":"wait"}}`:                         "computer_call_output",
		`{"type":"tool_search_call","call_id":"call_1","execution":"client","arguments":{"q":"x"}}`:    "tool_search_output",
		`{"type":"function_call","call_id":"call_1","name":"lookup","arguments":"{}"}`:                 "function_call_output",
		`{"type":"mcp_approval_request","id":"mcpr_1","name":"f","arguments":"{}","server_label":"s"}`: "",
	} {
		c, lost, other := shared(t), mneme.unique("results"), mneme.unique("results")
		for _, session := range []string{lost, other} {
			c.tell(session, hard.Responses, "["+hello+","+call+"]").want(201)
		}
		if name != "" {
			c.tell(other, hard.Chat, `[{"role":"tool","tool_call_id":"call_1","content":"in chat"}]`).want(201)
		}
		for _, session := range []string{lost, other} {
			c.tell(session, hard.Chat, "["+hello+"]").want(201)
			w := c.window(session, object{"format": hard.Responses})
			if text := list(w.Messages); name != "" && !strings.Contains(text, `"type":"`+name+`","call_id":"call_1"`) {
				t.Errorf("%s: %s", call, text)
			}
			accepted(t, hard.Responses, w)
		}
	}
}

// Call ids in a window are as short as its format requires, and unique if it requires that; a call and its result have
// the same id.
func TestIDsSuitTheFormat(t *testing.T) {
	c, session := shared(t), mneme.unique("ids")
	long := "fc_" + strings.Repeat("0123456789", 5)
	for range 3 { // agents reuse ids
		c.tell(session, hard.Responses, sprintf(`[%s,{"type":"function_call","call_id":%q,"name":"lookup","arguments":"{}"},
			{"type":"function_call_output","call_id":%q,"output":"r"}]`, hello, long, long)).want(201)
	}
	huge := strings.Repeat("x", 200)
	c.tell(session, hard.Anthropic, sprintf(`[%s,{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":"lookup","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":"r"}]}]`, hello, huge, huge)).want(201)
	for format := range asked {
		w := c.window(session, object{"format": format})
		accepted(t, format, w)
		ids := idOfCall.FindAllStringSubmatch(list(w.Messages), -1)
		if len(ids) == 0 {
			t.Errorf("%s shows no call: %s", format, list(w.Messages))
		}
		for _, id := range ids { // Anthropic documents no maximum length
			if most := map[hard.Format]int{hard.Chat: 40, hard.Responses: 64}[format]; most > 0 && len(id[1]) > most {
				t.Errorf("%s: an id of %d characters, at most %d are allowed: %s", format, len(id[1]), most, id[1])
			}
		}
		if format == hard.Responses && !strings.Contains(list(w.Messages), `"call_id":"`+long+`"`) {
			t.Errorf("an id that fits is gone: %s", list(w.Messages))
		}
	}
}

// idOfCall finds the ids of calls and of their results in each format.
var idOfCall = regexp.MustCompile(`"(?:call_id|tool_call_id|tool_use_id|id)":"([^"]*)"`)

// A tool whose name no format allows gets a valid name in windows. When the model calls it by that name, the call is
// stored with the tool's own name.
func TestToolNamesAreMappedAndBack(t *testing.T) {
	c := shared(t)
	for format, call := range map[hard.Format]string{
		hard.Chat: `{"role":"assistant","content":null,"tool_calls":[{"id":"call_2","type":"function","function":{"name":%q,
			"arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_2","content":"r"}`,
		hard.Anthropic: `{"role":"assistant","content":[{"type":"tool_use","id":"call_2","name":%q,"input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_2","content":"r"}]}`,
		hard.Responses: `{"type":"function_call","call_id":"call_2","name":%q,"arguments":"{}"},
			{"type":"function_call_output","call_id":"call_2","output":"r"}`,
	} {
		session := mneme.unique("names")
		c.tell(session, hard.Chat, `[`+hello+`,{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function",
			"function":{"name":"files.read","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_1","content":"r"}]`).want(201)
		shown := ""
		for _, each := range []hard.Format{hard.Chat, hard.Anthropic, hard.Responses} {
			w := c.window(session, object{"format": each})
			accepted(t, each, w)
			_, rest, _ := strings.Cut(list(w.Messages), `"name":"`)
			name, _, _ := strings.Cut(rest, `"`)
			if shown != "" && name != shown || !strings.HasPrefix(name, "files_read") {
				t.Errorf("%s shows %q, another format %q", each, name, shown)
			}
			shown = name
		}
		answer := sprintf(call, shown)
		pending := []json.RawMessage{}
		if err := json.Unmarshal([]byte("["+hello+","+answer+"]"), &pending); err != nil {
			t.Fatal(err)
		}
		w := c.window(session, object{"format": format, "pending": pending})
		if n := strings.Count(list(w.Messages), shown); n != 2 {
			t.Errorf("%s: %d calls of %s: %s", format, n, shown, list(w.Messages))
		}
		// Policies see the tool's own name for a pending call, also in a replay.
		result := strings.Repeat("a long result ", 40)
		long := strings.ReplaceAll(answer, `"r"`, `"`+result+`"`)
		both := "[" + hello + "," + long + "," + strings.ReplaceAll(long, "call_2", "call_3") + "]"
		if err := json.Unmarshal([]byte(both), &pending); err != nil {
			t.Fatal(err)
		}
		for excluded, cleared := range map[string]bool{"files.read": false, "another": true} {
			w := c.window(session, object{"format": format, "pending": pending, "pipeline": []object{{"policy": "tool-result-clear",
				"config": object{"trigger": 1, "keep": 1, "clear_at_least": 1, "exclude_tools": excluded}}}})
			if got := strings.Count(list(w.Messages), result) < 2; got != cleared {
				t.Errorf("%s, excluding %s: %s", format, excluded, list(w.Messages))
			}
		}
		c.tell(session, format, "["+hello+","+answer+"]").want(201)
		stored := string(c.get("/api/v1/projects/default/sessions/" + session + "/messages").want(200).body)
		if strings.Contains(stored, shown) || strings.Count(stored, "files.read") != 2 {
			t.Errorf("%s: the answer is not stored under the own name: %s", format, stored)
		}
	}
}

// A message that is evidently in another format is refused, and the error names that format.
func TestAnotherFormatIsNamed(t *testing.T) {
	c := shared(t)
	for _, p := range []struct {
		as, is  hard.Format
		message string
	}{
		{hard.Chat, hard.Anthropic, `{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"a","name":"f","input":{}}]}`},
		{hard.Chat, hard.Anthropic, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}`},
		{hard.Chat, hard.Anthropic, `{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/y"}}]}`},
		{hard.Chat, hard.Responses, `{"role":"user","content":[{"type":"input_text","text":"x"}]}`},
		{hard.Chat, hard.Responses, `{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}`},
		{hard.Anthropic, hard.Chat, `{"role":"tool","tool_call_id":"a","content":"x"}`},
		{hard.Anthropic, hard.Chat, `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`},
		{hard.Anthropic, hard.Chat, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y"}}]}`},
		{hard.Anthropic, hard.Responses, `{"type":"message","content":[{"type":"input_text","text":"x"}]}`},
		{hard.Responses, hard.Chat, `{"role":"user","content":[{"type":"text","text":"x"}]}`},
		{hard.Responses, hard.Chat, `{"role":"tool","tool_call_id":"a","content":"x"}`},
		{hard.Responses, hard.Anthropic, `{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"a"}]}`},
	} {
		problem := c.tell(mneme.unique("foreign"), p.as, "["+hello+","+p.message+"]").wantCode(422, "invalid_messages")
		if e := problem.Errors; len(e) != 1 || e[0].Code != "wrong_format" || e[0].Index == nil || *e[0].Index != 1 ||
			!strings.Contains(e[0].Detail, sprintf(`give "format":"%s"`, p.is)) {
			t.Errorf("%s %s: %+v", p.as, p.message, e)
		}
	}
}

// A lone UTF-16 surrogate is refused wherever it is, and a pair is not.
func TestLoneSurrogate(t *testing.T) {
	c := shared(t)
	bodies := map[string]string{
		"turns":    `{"session_id":"surrogate","messages":[{"role":"user","content":"%s"}]}`,
		"context":  `{"session_id":"surrogate","system":"%s"}`,
		"memories": `{"content":"%s","category":"core"}`,
	}
	for route, body := range bodies {
		path := "/api/v1/projects/default/" + route
		for _, lone := range []string{`\ud83d`, `\ude42`, `a\ud83d b`, `\ud83d\ud83d\ude42`} {
			p := c.do("POST", path, []byte(strings.ReplaceAll(body, "%s", lone))).problem(422)
			if len(p.Errors) != 1 || p.Errors[0].Code != "lone_surrogate" {
				t.Errorf("%s %s: %+v", route, lone, p)
			}
		}
		c.do("POST", path, []byte(strings.ReplaceAll(body, "%s", `\ud83d\ude42`))).want(200, 201)
	}
	// Arguments are texts of their own: they stay as they were sent, and are wrapped if a format requires an object.
	session := mneme.unique("surrogate")
	c.tell(session, hard.Chat, `[`+hello+`,{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function",
		"function":{"name":"lookup","arguments":"{\"q\":\"\\ud83d\"}"}}]},{"role":"tool","tool_call_id":"a","content":"r"}]`).want(201)
	for format := range asked {
		accepted(t, format, c.window(session, object{"format": format}))
	}
}

// Members without meaning, and reasoning that only some providers accept, are left out of chat windows.
func TestChatMembers(t *testing.T) {
	c, session := shared(t), mneme.unique("members")
	c.tell(session, hard.Chat, `[`+hello+`,{"role":"assistant","content":"hi","refusal":null,"annotations":null,"tool_calls":null,
		"reasoning_content":"think","x_own":1},`+hello+`,{"role":"assistant","content":"x","tool_calls":[]}]`).want(201)
	got := list(c.window(session, object{}).Messages)
	if want := `[` + hello + `,{"role":"assistant","content":"hi","x_own":1},` + hello + `,{"role":"assistant","content":"x"}]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	without, with := c.window(session, object{}), c.window(session, object{"reasoning": "content"})
	if !strings.Contains(list(with.Messages), `"reasoning_content":"think"`) || with.Usage.Tokens <= without.Usage.Tokens {
		t.Errorf("%d tokens without, %d with: %s", without.Usage.Tokens, with.Usage.Tokens, list(with.Messages))
	}
	body := providers.Body(providers.Chat, "deepseek-v4", with.Messages, nil, nil)
	if refusal := providers.CheckChat([]byte(strings.ReplaceAll(string(body), `"x_own":1,`, ""))); refusal != nil {
		t.Error(refusal)
	}
	c.post("/api/v1/projects/default/context", object{"reasoning": "all"}).wantCode(422, "invalid_value")
}

// A text document is shown as text in formats without documents.
func TestTextDocuments(t *testing.T) {
	c, session := shared(t), mneme.unique("documents")
	posted := `{"role":"user","content":[{"type":"document","title":"Terms","source":{"type":"text","media_type":"text/plain","data":"No refunds."}},
		{"type":"text","text":"May I?"}]}`
	c.tell(session, hard.Anthropic, "["+posted+"]").want(201)
	for _, format := range []hard.Format{hard.Chat, hard.Responses, "text"} {
		var w struct {
			Messages []json.RawMessage
			Text     string
		}
		c.post("/api/v1/projects/default/context", object{"session_id": session, "format": format}).want(200).into(&w)
		if shown := list(w.Messages) + w.Text; !strings.Contains(shown, "No refunds.") || !strings.Contains(shown, "Terms") {
			t.Errorf("%s: %s", format, shown)
		}
	}
}

// A system prompt may be a list of blocks, as providers allow it.
func TestSystemBlocks(t *testing.T) {
	c, session := shared(t), mneme.unique("system")
	c.tell(session, hard.Chat, "["+hello+"]").want(201)
	blocks := `[{"type":"text","text":"You help.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"Be brief."}]`
	w := c.window(session, object{"format": hard.Anthropic, "system": json.RawMessage(blocks)})
	if string(w.System) != blocks {
		t.Errorf("%s", w.System)
	}
	accepted(t, hard.Anthropic, w)
	strip := c.window(session, object{"format": hard.Anthropic, "system": json.RawMessage(blocks), "cache_control": "strip"})
	if strings.Contains(string(strip.System)+list(strip.Messages), "cache_control") {
		t.Errorf("%s %s", strip.System, list(strip.Messages))
	}
	many := json.RawMessage("[" + strings.Repeat(`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},`, 6) + `{"type":"text","text":"y"}]`)
	for _, control := range []string{"keep", "auto"} { // at most four breakpoints
		accepted(t, hard.Anthropic, c.window(session, object{"format": hard.Anthropic, "system": many, "cache_control": control}))
	}
	for format, typ := range map[hard.Format]string{hard.Chat: "text", hard.Responses: "input_text"} {
		w := c.window(session, object{"format": format, "system": json.RawMessage(`[{"type":"text","text":"You help."}]`)})
		if want := `{"role":"system","content":[{"type":"` + typ + `","text":"You help."}]}`; string(w.Messages[0]) != want {
			t.Errorf("%s", w.Messages[0])
		}
		accepted(t, format, w)
	}
	c.post("/api/v1/projects/default/context", object{"system": 7}).wantCode(422, "invalid_value")
	c.post("/api/v1/projects/default/context", object{"system": []object{{"type": "image"}}}).wantCode(422, "invalid_value")
}

// Pending messages may be of another format than the window.
func TestPendingFormat(t *testing.T) {
	c, session := shared(t), mneme.unique("pending")
	w := c.window(session, object{"format": hard.Anthropic, "pending_format": hard.Chat, "pending": []object{{"role": "user", "content": "q"},
		{"role": "assistant", "content": nil, "tool_calls": []object{{"id": "a", "type": "function", "function": object{"name": "lookup", "arguments": "{}"}}}},
		{"role": "tool", "tool_call_id": "a", "content": "r"}}})
	accepted(t, hard.Anthropic, w)
	if len(w.Messages) != 3 {
		t.Errorf("%s", list(w.Messages))
	}
	c.post("/api/v1/projects/default/context", object{"pending_format": "text"}).wantCode(422, "invalid_value")
}

// With mode repair, a result without its call becomes a note and duplicates are left out, each with its reason.
func TestModeRepair(t *testing.T) {
	c := shared(t)
	type skipped struct {
		Turn, Index  int
		Code, Reason string
	}
	use := `{"type":"function_call","call_id":"a","name":"lookup","arguments":"{}"}`
	for _, p := range []struct {
		format   hard.Format
		messages string
		codes    []string
		at       []int
	}{
		{hard.Chat, `[` + hello + `,{"role":"tool","tool_call_id":"lost","content":"42"},{"role":"assistant","content":null,"tool_calls":[
			{"id":"a","type":"function","function":{"name":"lookup","arguments":"{}"}},{"id":"a","type":"function","function":{"name":"lookup","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"a","content":"r"},{"role":"tool","tool_call_id":"a","content":"again"}]`,
			[]string{"orphan_result", "duplicate_call", "duplicate_result"}, []int{1, 2, 4}},
		{hard.Anthropic, `[` + hello + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"lost","content":"42"}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"lookup","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"},{"type":"tool_result","tool_use_id":"a","content":"again"}]}]`,
			[]string{"orphan_result", "duplicate_result"}, []int{1, 3}},
		{hard.Responses, `[` + hello + `,{"type":"function_call_output","call_id":"lost","output":"42"},` + use + `,` + use + `,
			{"type":"function_call_output","call_id":"a","output":"r"},{"type":"reasoning","id":"rs_1","summary":[]},{"role":"user","content":"x"}]`,
			[]string{"orphan_result", "duplicate_call", "reasoning_alone"}, []int{1, 3, 5}},
	} {
		session := mneme.unique("repair")
		c.tell(session, p.format, p.messages).wantCode(422, "invalid_messages")
		c.tell(session, p.format, p.messages, `,"mode":"mend"`).wantCode(422, "invalid_value")
		check := func(out []skipped) {
			t.Helper()
			for i := range p.codes {
				if len(out) != len(p.codes) || out[i].Code != p.codes[i] || out[i].Index != p.at[i] || out[i].Reason == "" {
					t.Fatalf("%s: %+v", p.format, out)
				}
			}
		}
		var turn struct{ Skipped []skipped }
		c.tell(session, p.format, p.messages, `,"mode":"repair"`).want(201).into(&turn)
		check(turn.Skipped)
		late := `{"role":"tool","tool_call_id":"a","content":"later"}`
		c.tell(session, hard.Chat, "["+hello+","+late+"]", `,"mode":"repair"`).want(201).into(&turn)
		if len(turn.Skipped) != 1 || turn.Skipped[0].Code != "duplicate_result" {
			t.Errorf("a second result in a later turn: %+v", turn.Skipped)
		}
		for format := range asked {
			w := c.window(session, object{"format": format})
			accepted(t, format, w)
			if n := strings.Count(list(w.Messages), "42"); n != 1 {
				t.Errorf("%s: the orphan stands %d times: %s", format, n, list(w.Messages))
			}
		}
		if p.format == hard.Chat {
			var messages []json.RawMessage
			_ = json.Unmarshal([]byte(p.messages), &messages)
			file := object{"version": 1, "session": object{"id": mneme.unique("repair")}, "turns": []object{{"turn": 1, "messages": []object{}}}}
			var held []object
			for _, m := range messages {
				held = append(held, object{"format": "openai.chat", "message": m})
			}
			file["turns"] = []object{{"turn": 1, "messages": held}}
			c.post("/api/v1/projects/default/sessions/import", file).problem(422)
			file["mode"] = "repair"
			var in struct{ Skipped []skipped }
			c.post("/api/v1/projects/default/sessions/import", file).want(201).into(&in)
			check(in.Skipped)
			if in.Skipped[0].Turn != 1 {
				t.Errorf("%+v", in.Skipped)
			}
		}
	}
}

// An Idempotency-Key belongs to a session: with another session it makes another request.
func TestKeysOfSessions(t *testing.T) {
	c := shared(t)
	one, two := mneme.unique("once"), mneme.unique("once")
	post := func(session, text string) reply {
		return c.do("POST", "/api/v1/projects/default/turns", object{"session_id": session,
			"messages": []object{{"role": "user", "content": text}}}, "Idempotency-Key", "turn-1")
	}
	for _, session := range []string{one, two, one} {
		var turn struct{ Turn int }
		if r := post(session, "x").want(201); !strings.Contains(string(r.body), `"skipped":[]`) {
			t.Errorf("%s", r.body)
		} else {
			r.into(&turn)
		}
		if turn.Turn != 1 {
			t.Errorf("%s: turn %d", session, turn.Turn)
		}
	}
	post(one, "another").wantCode(422, "idempotency_key_reused")
}
