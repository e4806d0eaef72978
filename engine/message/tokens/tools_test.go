package tokens_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/tiktoken"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
)

// The example in the cookbook, which says that it takes 101 tokens in o200k_base, of which 33 are its messages'.
const cookbookTools = `[{"type":"function","function":{"name":"get_current_weather",
	"description":"Get the current weather in a given location","parameters":{"type":"object","properties":{
	"location":{"type":"string","description":"The city and state, e.g. San Francisco, CA"},
	"unit":{"type":"string","description":"The unit of temperature to return","enum":["celsius","fahrenheit"]}},
	"required":["location"]}}}]`

func counter(t testing.TB, encoding string) func(string) int {
	t.Helper()
	c, err := tiktoken.New()
	if err != nil {
		t.Fatal(err)
	}
	return func(s string) int { return c.Count(encoding, s) }
}

func split(t *testing.T, list string) (entries []json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal([]byte(list), &entries); err != nil {
		t.Fatal(err)
	}
	return entries
}

// Tools cost what the cookbook's example says, in the format of each provider.
func TestToolsAsTheCookbookCounts(t *testing.T) {
	flat := strings.NewReplacer(`"function":{`, "", `"required":["location"]}}}]`, `"required":["location"]}}]`)
	responses := flat.Replace(cookbookTools)
	anthropic := strings.Replace(responses, `"type":"function",`, "", 1)
	anthropic = strings.Replace(anthropic, `"parameters"`, `"input_schema"`, 1)
	for name, list := range map[string]string{"chat": cookbookTools, "responses": responses, "anthropic": anthropic} {
		for _, e := range []struct {
			encoding string
			want     int
		}{{"o200k_base", 68}, {"cl100k_base", 71}} {
			got, err := tokens.Tools(split(t, list), e.encoding == "cl100k_base", counter(t, e.encoding))
			if err != nil || got != e.want {
				t.Errorf("%s: %d tokens (%v), want %d", name, got, err, e.want)
			}
		}
	}
}

func TestTools(t *testing.T) {
	count := counter(t, "o200k_base")
	for list, want := range map[string]int{
		`[]`:             0,
		`[{"name":"f"}]`: 12 + 7 + count("f:"),
		`[{"name":"f","description":"Does it."}]`:                     12 + 7 + count("f:Does it"),
		`[{"name":"f"},{"name":"g"}]`:                                 12 + 7 + count("f:") + 7 + count("g:"),
		`[{"type":"bash_20250124","name":"bash"}]`:                    12 + 325,
		`[{"type":"web_search"}]`:                                     12 + 7 + count(`{"type":"web_search"}`),
		`[{"type":"custom","custom":{"name":"f","description":"x"}}]`: 12 + 7 + count("f:x"),
		`[{"name":"f","parameters":{"properties":{"a":{"type":["string","null"],"enum":["x",2]}}}}]`: 12 + 7 + count("f:") +
			3 + 3 + count("a:string,null:") - 3 + 3 + count("x") + 3 + count("2"),
	} {
		if got, err := tokens.Tools(split(t, list), false, count); err != nil || got != want {
			t.Errorf("%s: %d tokens (%v), want %d", list, got, err, want)
		}
	}
	for list, says := range map[string]string{
		`[1]`:          "tools[0]: must be an object",
		`[null]`:       "tools[0]: must be an object",
		`[{}]`:         "tools[0]: must have a name or a type",
		`[{"name":1}]`: "tools[0]: must be an object whose type, name",
		`[` + strings.Repeat(`{"name":"f"},`, 1024) + `{"name":"f"}]`: "at most 1024",
		`["` + strings.Repeat("x", 1<<20) + `"]`:                      "at most 1048576 bytes",
	} {
		if _, err := tokens.Tools(split(t, list), false, count); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: %v, want that it says %q", list, err, says)
		}
	}
}

// A counted list is not counted again, except in another encoding. An interrupted count is not remembered.
func TestMemo(t *testing.T) {
	var m tokens.Memo
	counted := 0
	count := func(s string) int { counted++; return len(s) }
	ask := func(cl100k, ended bool, calls int) {
		t.Helper()
		counted = 0
		n, err := m.Tools(split(t, `[{"name":"f"}]`), cl100k, count, func() bool { return ended })
		want := 12 + 7 + 2
		if cl100k {
			want += 3
		}
		if err != nil || n != want || counted != calls {
			t.Errorf("%d tokens (%v) with %d texts counted, want %d with %d", n, err, counted, want, calls)
		}
	}
	ask(false, true, 1)
	ask(false, false, 1)
	ask(false, false, 0)
	ask(true, false, 1)
	ask(true, false, 0)
}
