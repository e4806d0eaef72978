package providers

import (
	"fmt"
	"strings"
	"testing"
)

// ruleCase is a request that breaks one rule, with the provider's exact words, and one that does not.
type ruleCase struct {
	rule         string
	model        string // of the request
	broken, kept string // requests without the model, in full or in the API's short form
	text         string
	param, code  string
	opts         []Option
}

// holdRules runs the cases of an API, and requires a case that breaks each rule of the table.
func holdRules[T any](t *testing.T, api API, rules []rule[T], cases []ruleCase, whole func(model,
	short string) string) {
	broken := map[string]bool{}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			refusal := check(api, whole(c.model, c.broken), c.opts...)
			if refusal == nil {
				t.Fatalf("not refused: %s", short(c.broken))
			}
			if refusal.Rule != c.rule || refusal.Message != c.text || refusal.Param != c.param ||
				refusal.Code != c.code {
				t.Errorf("refused by %s\n%s\nparam %q code %q\nnot by %s\n%s\nparam %q code %q", refusal.Rule,
					refusal.Message,
					refusal.Param, refusal.Code, c.rule, c.text, c.param, c.code)
			}
			if refusal := check(api, whole(c.model, c.kept), c.opts...); refusal != nil {
				t.Errorf("%s is refused: %v", short(c.kept), refusal)
			}
		})
		broken[c.rule] = true
	}
	for _, r := range rules {
		if !broken[r.name] && r.name != "responses/prefix" { // responses/prefix refuses nothing; TestReasoningPrefix checks it
			t.Errorf("no case breaks %s", r.name)
		}
	}
}

func check(api API, body string, opts ...Option) *Refusal {
	switch api {
	case Chat:
		return CheckChat([]byte(body), opts...)
	case Responses:
		return CheckResponses([]byte(body), opts...)
	}
	return CheckMessages([]byte(body), opts...)
}

func short(s string) string { return s[:min(len(s), 300)] }

// request returns a function that adds a model to the members of a request.
func request(fallback string) func(model, short string) string {
	return func(model, members string) string {
		return fmt.Sprintf(`{"model":%q,%s}`, either(model, fallback), members)
	}
}

// many repeats an element with %d in it.
func many(n int, element string) string {
	out := make([]string, n)
	for i := range out {
		out[i] = strings.ReplaceAll(element, "%d", fmt.Sprint(i))
	}
	return strings.Join(out, ",")
}

func TestJSON(t *testing.T) {
	for _, body := range []string{`{`, `[]`, `null`, `{} {}`, "{\"a\":\"\xff\"}", `{"a":"\ud800"}`, `{"a":"\udc00x"}`,
		`{"a":"\ud800\ud800\udc00"}`, `{"a":"\ud83d x \ude00"}`} {
		for _, api := range []API{Chat, Responses, Messages} {
			if refusal := check(api, body); refusal == nil || !strings.HasSuffix(refusal.Rule, "/json") {
				t.Errorf("%s %q: %v", api, body, refusal)
			}
		}
	}
	want := `The request body is not valid JSON: no low surrogate in string: line 1 column 10 (char 9)`
	if refusal := CheckMessages([]byte(`{"a":"xy \ud800"}`)); refusal == nil || refusal.Message != want {
		t.Error(refusal)
	}
	for _, text := range []string{`\ud83d\ude00`, `\\ud800`, `😀`, `\\\\ud800 \"`} {
		body := `{"model":"gpt-4o","messages":[{"role":"user","content":"` + text + `"}]}`
		if refusal := CheckChat([]byte(body)); refusal != nil {
			t.Errorf("%s: %v", text, refusal)
		}
	}
}

func TestUnknownModel(t *testing.T) {
	for _, c := range []struct {
		api   API
		model string
	}{{Chat, "gpt-9"}, {Responses, "claude-opus-5"}, {Messages, "gpt-4o"}} {
		refusal := check(c.api, request(c.model)("", `"messages":[]`))
		if refusal == nil || refusal.Status != 404 || !strings.Contains(refusal.Message, c.model) {
			t.Errorf("%s: %v", c.api, refusal)
		}
	}
}
