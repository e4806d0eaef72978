package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// TestMemoriesInEveryFormat: memories are in the window of each format, within every budget, beside the request's
// system text. The windows of the three formats with messages are checked.
func TestMemoriesInEveryFormat(t *testing.T) {
	c := own(t)
	known := c.knowledge()
	transcript := hard.Generate(hard.Knobs{Seed: 21, Messages: 60, Delegations: true})
	for _, turn := range transcript.Turns {
		c.say(turn)
	}
	shown := map[int]bool{}
	for _, format := range hard.Formats() {
		for _, tokens := range []int{0, 8000, 1000, 400, 150} {
			for _, system := range []string{"", "Be brief."} {
				a := ask{format: format, maxTokens: &tokens, system: system,
					memories: &remembering{query: "where does Ada live? bridge of Lisbon", limit: 6, known: known}}
				w := c.window(a)
				if w == nil {
					continue
				}
				c.replay(t, w)
				if n := len(w.Memories); n < 4 {
					t.Errorf("%s, %d tokens: found %d", format, tokens, n)
				}
				n := 0
				for _, m := range w.Memories {
					if m.Injected {
						n++
					}
				}
				shown[n] = true
			}
		}
	}
	if len(shown) < 3 {
		t.Errorf("all budgets show as many memories: %v", shown)
	}
	text := c.assemble(object{"session_id": c.session, "format": "text",
		"memories": object{"query": "Grace", "position": "first"}})
	if len(text.Memories) == 0 || !text.Memories[0].Injected || !strings.Contains(text.Text, "Grace likes olives") ||
		!strings.Contains(text.Text, memoriesHead) || strings.Index(text.Text, memoriesHead) > strings.Index(text.Text,
		"(turn ") {
		t.Errorf("as text: %+v\n%s", text.Memories, clip(text.Text, 600))
	}
	none := c.assemble(object{"session_id": c.session, "memories": object{"query": "xylophone"}})
	if none.Memories == nil || len(none.Memories) != 0 {
		t.Errorf("nothing is found, told %+v", none.Memories)
	}
}

// TestMemoriesByQuestion: without a query, memories are recalled for the newest question that the viewer may see, which
// may be pending.
func TestMemoriesByQuestion(t *testing.T) {
	c := own(t)
	c.knowledge()
	first := func(request object) string {
		t.Helper()
		w := c.assemble(request)
		if len(w.Memories) == 0 {
			t.Errorf("%v: nothing found", request)
			return ""
		}
		return w.Memories[0].Key
	}
	var listed struct{ Data []memory } // the most recently changed first; several may have the same millisecond
	c.get(c.path("/memories?order=recent")).want(200).into(&listed)
	if got := first(object{"memories": object{}}); got != listed.Data[0].Key {
		t.Errorf("without a question the last changed comes first, %s, not %s", listed.Data[0].Key, got)
	}
	secret := user("who likes olives?")
	secret["delegation_id"] = "del_1"
	c.turn("s", user("who builds bridges of stone?"), assistant("Ada")).want(201)
	c.turn("s", secret, object{"role": "assistant", "content": "Grace", "delegation_id": "del_1"}).want(201)
	for want, request := range map[string]object{
		"fact1": {"session_id": "s", "memories": object{}, "viewer": object{"delegation_id": "del_2", "whole": true}},
		"fact2": {"session_id": "s", "memories": object{"query": " "}, "viewer": object{"delegation_id": "del_1"}},
		"fact4": {"session_id": "s", "memories": object{}, "pending": []object{user("日本語?")}},
	} {
		if got := first(request); got != want {
			t.Errorf("%v: %s comes first, want %s", request, got, want)
		}
	}
}

// decided is the part of a decision about its memories.
type decided struct {
	Memories []remembered `json:"memories"`
	Report   []row        `json:"report"`
	Purged   string       `json:"purged"`
}

// TestDecisionsNameTheirMemories: a decision shows the versions that it used, and replays equally after they are
// overwritten. After one is forgotten, it says which, even if there is another with the same key.
func TestDecisionsNameTheirMemories(t *testing.T) {
	c := own(t)
	c.remember(object{"key": "home", "content": "Ada lives in Lisbon"})
	c.turn("s", user("where does Ada live?"), assistant("one moment")).want(201)
	w := c.assemble(object{"session_id": "s", "memories": object{}, "explain": true})
	if len(w.Memories) != 1 || w.Memories[0] != (remembered{"home", 1, "core", true}) {
		t.Fatalf("found %+v", w.Memories)
	}
	look := func() (d decided) {
		t.Helper()
		c.get(c.path("/decisions/" + w.DecisionID)).want(200).into(&d)
		return d
	}
	same := func(when string) {
		t.Helper()
		c.replay(t, w)
		d := look()
		if len(d.Memories) != 1 || d.Memories[0] != w.Memories[0] || len(d.Report) != len(w.Report) || d.Purged != "" {
			t.Errorf("%s the decision shows %+v", when, d)
		}
	}
	same("at first")
	for _, content := range []string{"Ada lives in Porto", "Ada lives in Faro"} {
		c.remember(object{"key": "home", "content": content}, 200)
		same("after it is overwritten")
	}
	if now := c.assemble(object{"session_id": "s", "memories": object{}}); now.Memories[0].Version != 3 ||
		!strings.Contains(string(now.Messages[0]), "Faro") {
		t.Errorf("a new window shows %+v %s", now.Memories, now.Messages[0])
	}
	brief := func(report []row) (out []string) { // RawMessages cannot be compared
		for _, r := range report {
			out = append(out, fmt.Sprintf("%s %s %s %d %d", r.MessageID, r.Action, r.ReasonCode, r.TokensBefore, r.TokensAfter))
		}
		return out
	}
	gone := func(when string) {
		t.Helper()
		p := c.post(c.path("/decisions/"+w.DecisionID+"/replay"), nil).wantCode(410, "memory_purged")
		d := look()
		if !strings.Contains(p.Detail, `"home"`) || !strings.Contains(d.Purged, `"home"`) || !slices.Equal(brief(d.Report), brief(w.Report)) {
			t.Errorf("%s: %+v, the decision %+v", when, p, d)
		}
		if body := c.get(c.path("/decisions/" + w.DecisionID)).body; strings.Contains(string(body), "Lisbon") {
			t.Errorf("%s the decision still shows it: %s", when, body)
		}
	}
	c.do("DELETE", c.path("/memories/home"), nil).want(204)
	gone("after it is forgotten")
	c.remember(object{"key": "home", "content": "Ada lives in Lisbon"})
	gone("after another takes its key")
}

// TestReportsOutliveMemories: a memory that eight windows showed is forgotten. All their decisions keep their reports and
// figures, in a budget that leaves messages out, and say nothing of what it said.
func TestReportsOutliveMemories(t *testing.T) {
	c := own(t)
	c.remember(object{"key": "home", "content": "Ada lives in Lisbon" + strings.Repeat(" by the river", 60)})
	c.remember(object{"key": "food", "content": "Ada likes olives"})
	type kept struct {
		Report []json.RawMessage
		Usage  json.RawMessage
		Purged string
	}
	look := func(id string) (d kept) {
		t.Helper()
		r := c.get(c.path("/decisions/" + id)).want(200)
		if d.Purged != "" && strings.Contains(string(r.body), "Lisbon") {
			t.Errorf("the decision still says it: %s", r.body)
		}
		r.into(&d)
		return d
	}
	var ids []string
	var before []kept
	left := 0
	for n := range 8 {
		question := user(fmt.Sprint("where does Ada live? ", strings.Repeat("so ", 150), n))
		for range 2 { // the second asks again while the question is pending
			w := c.assemble(object{"session_id": "s", "memories": object{}, "explain": true, "pending": []any{question},
				"budget": object{"max_tokens": 1200}})
			ids = append(ids, w.DecisionID)
			left += fates(w)["drop"]
		}
		c.post(c.path("/turns"), object{"session_id": "s", "decision_id": ids[len(ids)-1],
			"messages": []any{question, assistant("in a town")}}).want(201)
	}
	for _, id := range ids {
		before = append(before, look(id))
	}
	c.do("DELETE", c.path("/memories/home"), nil).want(204)
	for i, id := range ids {
		d := look(id)
		if d.Purged == "" || len(d.Report) == 0 || string(encodeJSON(t, d.Report)) != string(encodeJSON(t, before[i].Report)) ||
			string(d.Usage) != string(before[i].Usage) {
			t.Errorf("window %d: the report was\n%s\nand is\n%s", i, encodeJSON(t, before[i]), encodeJSON(t, d))
		}
	}
	if left == 0 {
		t.Error("no window left anything out")
	}
}

// TestMemoriesForKeys: windows of a reader may have memories, those of a key limited to another project may not.
func TestMemoriesForKeys(t *testing.T) {
	c := own(t)
	c.remember(object{"key": "home", "content": "Ada lives in Lisbon"})
	other := own(t)
	request := object{"memories": object{"query": "Ada"}}
	for role, key := range map[string]string{"reader": c.newKey("reader"), "narrowed": c.newKey("agent", c.project)} {
		var w window
		c.as(key).post(c.path("/context"), request).want(200).into(&w)
		if len(w.Memories) != 1 ||
			!w.Memories[0].Injected {
			t.Errorf("%s finds %+v", role, w.Memories)
		}
	}
	c.as(c.newKey("agent", other.project)).post(c.path("/context"), request).problem(404)
	if w := other.assemble(request); len(w.Memories) != 0 {
		t.Errorf("another project's window shows %+v", w.Memories)
	}
	stranger := converse(newTenant(t), "s")
	if w := stranger.assemble(request); len(w.Memories) != 0 {
		t.Errorf("another tenant's window shows %+v", w.Memories)
	}
	stranger.post(c.path("/context"), request).problem(404)
}

// TestMemoriesRequestIsStrict: an invalid request for memories is refused with the field's name, and leaves no
// decision.
func TestMemoriesRequestIsStrict(t *testing.T) {
	c := own(t)
	for field, body := range map[string]string{
		"memories.quary": `{"memories":{"quary":"x"}}`,
		"memories.limit": `{"memories":{"limit":101}}`,
		"memories.query": `{"memories":{"query":"` + strings.Repeat("x", 40_000) + `"}}`,
	} {
		p := c.post(c.path("/context"), json.RawMessage(body)).problem(422)
		if len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: %+v", clip(body, 60), p)
		}
	}
	c.post(c.path("/context"), json.RawMessage(`{"memories":{"limit":-1}}`)).problem(422)
	c.post(c.path("/context"), json.RawMessage(`{"memories":"Ada"}`)).problem(422)
	if w := c.assemble(object{"memories": nil}); w.Memories != nil {
		t.Errorf("null asks for %+v", w.Memories)
	}
}

// TestMemoriesStandBeforeTheQuestion checks, in each format and with the providers' checks, that memories are right
// before the question that they were recalled for, during a tool loop and in later windows.
func TestMemoriesStandBeforeTheQuestion(t *testing.T) {
	for format, api := range map[string]providers.API{"openai.chat": providers.Chat, "anthropic.messages": providers.Messages,
		"openai.responses": providers.Responses} {
		t.Run(format, func(t *testing.T) {
			c := own(t)
			c.remember(object{"key": "home", "content": "Ada lives in Lisbon with two cats"})
			pending, err := providers.FromChat(api, []json.RawMessage{
				json.RawMessage(`{"role":"user","content":"where does Ada live?"}`),
				json.RawMessage(`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`),
				json.RawMessage(`{"role":"tool","tool_call_id":"c1","content":"done"}`),
				json.RawMessage(`{"role":"assistant","content":"In Lisbon."}`)})
			if err != nil {
				t.Fatal(err)
			}
			var first string
			decision := ""
			for _, n := range []int{1, 3} {
				w := c.assemble(object{"session_id": "s", "format": format, "memories": object{}, "pending": pending[:n]})
				if first == "" {
					first = string(w.Messages[0])
				}
				if !strings.Contains(first, "two cats") || n > 1 && format != "anthropic.messages" && string(w.Messages[0]) != first {
					t.Errorf("%d pending: %s", n, w.Messages)
				}
				decision = w.DecisionID
				c.remember(object{"key": "later", "content": "Ada lives near the river"}, 200, 201)
			}
			c.post(c.path("/turns"), object{"session_id": "s", "format": format, "decision_id": decision, "messages": pending}).want(201)
			last := c.assemble(object{"session_id": "s", "format": format, "memories": object{},
				"pending": []object{user("who has cats?")}, "pending_format": "openai.chat"})
			text := string(bytes.Join(raws(last.Messages), []byte("\n")))
			if strings.Count(text, "were recalled, not said") != 2 || strings.Index(text, "two cats") > strings.Index(text, "where does Ada live?") ||
				strings.Contains(text[:strings.Index(text, "where does")], "river") {
				t.Errorf("%s", text)
			}
			c.replay(t, last)

			if file := string(c.copySession("s", "copy")); !strings.Contains(file, `"made":"`) || !strings.Contains(file, `"reminder":{`) {
				t.Errorf("the file says nothing of prompts and memories: %s", file)
			}
			copied := c.assemble(object{"session_id": "copy", "format": format, "memories": object{},
				"pending": []object{user("who has cats?")}, "pending_format": "openai.chat"})
			if got := string(bytes.Join(raws(copied.Messages), []byte("\n"))); got != text {
				t.Errorf("the window of the copy is\n%s\nnot\n%s", got, text)
			}
		})
	}
}

func raws(messages []json.RawMessage) (out [][]byte) {
	for _, m := range messages {
		out = append(out, m)
	}
	return out
}
