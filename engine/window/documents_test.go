package window_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// result is a tool's result that holds documents, in the format that it is posted in.
type result struct{ name, format, content string }

// post posts a question, a call and the result.
func (r *result) post(t *testing.T, k *enginetest.Kit, id string) {
	t.Helper()
	messages := []string{`{"role":"user","content":"read"}`}
	switch r.format {
	case "anthropic.messages":
		messages = append(messages, `{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"read","input":{}}]}`,
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":`+r.content+`}]}`)
	case "openai.responses":
		messages = append(messages, `{"type":"function_call","call_id":"c","name":"read","arguments":"{}"}`,
			`{"type":"function_call_output","call_id":"c","output":`+r.content+`}`)
	default:
		messages = append(messages, enginetest.Call("c", "read"), `{"role":"tool","tool_call_id":"c","content":`+r.content+`}`)
	}
	if _, err := k.TryPost(session.TurnRequest{SessionID: id, Format: r.format}, messages...); err != nil {
		t.Fatalf("%s: %v", r.name, err)
	}
}

func document(source string) string {
	return `{"type":"document","source":{` + source + `},"title":"The title","citations":{"enabled":true},` +
		`"cache_control":{"type":"ephemeral"}}`
}

func textDocument(text string) string {
	return document(fmt.Sprintf(`"type":"text","media_type":"text/plain","data":%q`, text))
}

func searchResult(text string) string {
	return fmt.Sprintf(`{"type":"search_result","source":"https://example.com","title":"The title",`+
		`"content":[{"type":"text","text":%q},{"type":"text","text":"the last words"}],"citations":{"enabled":true}}`, text)
}

func inputFile(before, text string) string {
	return fmt.Sprintf(`{"type":"input_file","filename":"a.txt","file_data":"%s%s"}`, before,
		base64.StdEncoding.EncodeToString([]byte(text)))
}

const (
	imageBlock = `{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}`
	linkedPDF  = `{"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}}`
)

// long is a text of 80 KB that counts as about 30,000 tokens.
var long = page(80_000)

// oversizedResults are results that no window of 8,000 tokens holds.
func oversizedResults() []result {
	const anthropic = "anthropic.messages"
	wide := strings.Repeat("日本語の文書です。", 3000)
	return []result{
		{"text document", anthropic, "[" + textDocument(long) + "]"},
		{"custom content", anthropic, "[" + document(fmt.Sprintf(`"type":"content","content":[{"type":"text","text":%q},`+
			`{"type":"text","text":"more"}]`, long)) + "]"},
		{"content that is a text", anthropic, "[" + document(fmt.Sprintf(`"type":"content","content":%q`, long)) + "]"},
		{"search result", anthropic, "[" + searchResult(long) + "]"},
		{"several", anthropic, "[" + textDocument(long) + "," + textDocument(long[:60_000]) + "," + searchResult(long) +
			"," + textDocument("a short one") + "," + textDocument("") + "]"},
		{"mixed", anthropic, fmt.Sprintf(`[{"type":"text","text":%q},`, long) + imageBlock + "," + textDocument(long) + "," +
			imageBlock + "]"},
		{"beside a short text", anthropic, `[{"type":"text","text":"Found it."},` + textDocument(long) + "]"},
		{"wide characters", anthropic, "[" + textDocument(wide) + "]"},
		{"file", "openai.responses", "[" + inputFile("data:text/plain;base64,", wide) + "]"},
		{"bare file", "openai.responses", `[{"type":"input_text","text":"here"},` + inputFile("", long) + "]"},
		{"chat file", "openai.chat", `[{"type":"file","file":{"filename":"a.csv","file_data":"data:text/csv;base64,` +
			base64.StdEncoding.EncodeToString([]byte(long)) + `"}}]`},
	}
}

// A tool's result whose documents no window holds is cut like a text, in every format, newest and a turn later, by the
// default pipeline and without one.
func TestOversizedDocuments(t *testing.T) {
	k := enginetest.New(t)
	for _, r := range oversizedResults() {
		id := strings.ReplaceAll(r.name, " ", "-")
		r.post(t, k, id)
		for later := range 2 {
			asks := []string{"", `,"tool_results":"markdown"`}
			if later == 0 { // without a policy, a host cuts only what must stay
				asks = append(asks, `,"pipeline":[]`)
			}
			for _, format := range []string{"anthropic.messages", "openai.chat", "openai.responses", "text"} {
				for _, rest := range asks {
					r.ask(t, k, format, fmt.Sprintf(`{"session_id":%q,"explain":true,"format":%q%s}`, id, format, rest))
				}
			}
			k.Post(id, enginetest.Assistant("I read it."), enginetest.User("And?"))
		}
	}
}

// ask checks one window.
func (r *result) ask(t *testing.T, k *enginetest.Kit, format, ask string) {
	t.Helper()
	w, err := k.TryAsk(ask)
	if err != nil {
		t.Errorf("%s: %v: %s", r.name, err, ask)
		return
	}
	native := format == r.format
	named := r.format != "anthropic.messages" && !native // other formats show a file by its type
	if n := w.Usage["tokens"]; n > 8000 || n < 2500 && !named {
		t.Errorf("%s: %d tokens: %s", r.name, n, ask)
	}
	shown := string(windowOf(t, w))
	if row := w.Report[2]; row.Action != "truncate" && !named {
		t.Errorf("%s: %+v", r.name, row)
	}
	words := []string{"a short one", "Found it."}
	if native {
		words = append(words, `"title":"The title"`, `"media_type":"text/plain"`, "https://example.com", "a.txt", "a.csv",
			"a.png", "cache_control")
	}
	for _, word := range words {
		if strings.Contains(r.content, word) && !strings.Contains(shown, word) {
			t.Errorf("%s: without %s: %s", r.name, word, ask)
		}
	}
	if native && strings.Contains(shown, `"citations":{"enabled":true}`) {
		t.Errorf("%s: citations: %s", r.name, clip(shown))
	}
	validate(t, format, w)
	k.Replay(w.DecisionID)
	if again := k.Ask("%s", ask); string(windowOf(t, again)) != shown {
		t.Errorf("%s: another window: %s", r.name, ask)
	}
}

// The cut of a document keeps its beginning and its end, names what is left out between them, and divides no character.
func TestCutsOfDocuments(t *testing.T) {
	k := enginetest.New(t)
	wide := strings.Repeat("日本語の文書です。", 3000)
	r := result{"wide", "anthropic.messages", "[" + textDocument(wide) + "," + linkedPDF + "]"}
	r.post(t, k, "wide")
	w := k.Ask(`{"session_id":"wide","format":"anthropic.messages","budget":{"max_tokens":20000}}`)
	var message struct {
		Content []struct {
			Content []struct{ Source struct{ Type, Data string } }
		}
	}
	if err := json.Unmarshal(w.Messages[2], &message); err != nil {
		t.Fatal(err)
	}
	inside := message.Content[0].Content
	head, rest, found := strings.Cut(inside[0].Source.Data, "[… ")
	mark, tail, _ := strings.Cut(rest, "…]")
	if !found || !strings.HasPrefix(wide, head) || !strings.HasSuffix(wide, tail) || head == "" || tail == "" ||
		mark != fmt.Sprint(len(wide)-len(head)-len(tail), " bytes left out; documents stay ") {
		t.Errorf("head %q, mark %q, tail %q", clip(head), mark, clip(tail))
	}
	if inside[0].Source.Type != "text" || inside[1].Source.Type != "url" || !utf8.ValidString(head+tail) {
		t.Errorf("%+v", inside[1])
	}
}

// Anthropic refuses a request in which some documents have citations and some have none. So when one loses its citations
// to a cut, all do.
func TestCitationsOfCutDocuments(t *testing.T) {
	k := enginetest.New(t)
	r := result{"cited", "anthropic.messages", "[" + textDocument(long) + "," + searchResult("brief") + "]"}
	req := inAnthropic("cited")
	if _, err := k.TryPost(req, `{"role":"user","content":[`+textDocument("the user's own")+`]}`,
		`{"role":"assistant","content":"Thank you."}`); err != nil {
		t.Fatal(err)
	}
	const ask = `{"session_id":"cited","format":"anthropic.messages"}`
	if shown := string(windowOf(t, k.Ask(ask))); strings.Count(shown, `{"enabled":true}`) != 1 {
		t.Errorf("nothing is cut: %s", shown)
	}
	r.post(t, k, "cited")
	w := k.Ask(ask)
	shown := string(windowOf(t, w))
	if strings.Contains(shown, `{"enabled":true}`) || strings.Count(shown, `"citations":{"enabled":false}`) != 2 {
		t.Errorf("some have citations: %s", clip(shown))
	}
	k.Replay(w.DecisionID)
}

// A cleared result has no text documents, files or search results. What is no text stays, and the words in its place say
// so.
func TestClearedDocuments(t *testing.T) {
	k := enginetest.New(t)
	for _, test := range []struct{ name, content, want string }{
		{"text", "[" + textDocument(long[:4000]) + "," + searchResult(long[:4000]) + "]",
			`"content":[{"type":"text","text":"[result of read left out: 8015 bytes`},
		{"pdf", "[" + textDocument(long[:4000]) + "," + linkedPDF + "]", `; documents stay]"},` + linkedPDF + `]`},
		{"image", "[" + textDocument(long[:4000]) + "," + imageBlock + "]", `; images stay]"},` + imageBlock + `]`},
	} {
		r := result{test.name, "anthropic.messages", test.content}
		r.post(t, k, test.name)
		k.Post(test.name, enginetest.Assistant("I read it."))
		for _, format := range []string{"anthropic.messages", "openai.chat", "openai.responses", "text"} {
			w := k.Ask(`{"session_id":%q,"explain":true,"format":%q,"budget":{"max_tokens":40000},"pipeline":[{"policy":"tool-result-clear","config":`+
				`{"trigger":100,"keep":0,"clear_at_least":1}}]}`, test.name, format)
			shown := string(windowOf(t, w))
			if row := w.Report[2]; row.Action != "stub" || row.After > 60 && test.name == "text" {
				t.Errorf("%s: %s: %+v", test.name, format, row)
			}
			if strings.Contains(shown, "lazy dogs") || format == "anthropic.messages" && !strings.Contains(shown, test.want) {
				t.Errorf("%s: %s: %s", test.name, format, clip(shown))
			}
			validate(t, format, w)
			k.Replay(w.DecisionID)
		}
	}
}

// However few tokens TRUNCATE leaves, a result's texts take no more together, but for the mark that each needs at least.
// Providers take the window, and it replays.
func TestDocumentsAreCutToTheArgument(t *testing.T) {
	k := enginetest.New(t)
	for _, r := range oversizedResults() {
		id := strings.ReplaceAll(r.name, " ", "-")
		r.post(t, k, id)
		for _, most := range []int{1, 7, 30, 200, 3000} {
			for _, format := range []string{"anthropic.messages", "openai.chat", "openai.responses", "text"} {
				w := k.Ask(`{"session_id":%q,"explain":true,"format":%q,"budget":{"max_tokens":0},"pipeline":[{"policy":"tool-result-clear",`+
					`"config":{"max_result_tokens":%d}}]}`, id, format, most)
				const besides = 2 * 1400 // two pictures of unknown size
				if row := w.Report[2]; row.After > most+besides || row.After > most+120 && !strings.Contains(r.content, "a.png") {
					t.Errorf("%s, %s: %d tokens of at most %d", r.name, format, row.After, most)
				}
				validate(t, format, w)
				k.Replay(w.DecisionID)
			}
		}
	}
}
