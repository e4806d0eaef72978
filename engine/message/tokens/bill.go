package tokens

import (
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/message/callid"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// What a message costs besides its texts, in tokens. OpenAI publishes three per message and one per name for Chat
// Completions. A call is counted like a message.
const (
	perMessage = 3
	perName    = 1
	perCall    = 3
	// Primer is the cost of starting the model's reply, once per prompt.
	Primer = 3
)

// Bill lists what a message costs in one format. It lists texts without counting them, so that each text is counted
// once, however many formats show it.
type Bill struct {
	fixed    int // tokens that do not depend on a text
	shown    string
	text     []string // the message's own text, which a policy may replace
	words    []string // other texts
	thinking []string // those of words that are thinking and reasoning
	hidden   int      // the part of fixed that is encrypted thinking
	media    [rules]int
	mixed    bool // there is more than one text, calls and names
}

// Of returns the bill of a message in a format that has messages.
func Of(f chat.Format, m *chat.Message) *Bill {
	b := &Bill{shown: m.Shown(), fixed: perMessage, words: append(make([]string, 0, 8), chat.RoleName(m.Role))}
	if m.Name != "" && f == chat.OpenAIChat {
		b.fixed += perName
		b.words = append(b.words, m.Name)
	}
	for i := range m.Calls {
		c := &m.Calls[i]
		b.fixed += perCall
		b.words = append(b.words, callid.Name(c.Name), argumentsIn(f, c.Arguments), b.id(f, c.ID))
	}
	if m.CallID != "" {
		b.words = append(b.words, b.id(f, m.CallID))
	}
	switch raw := chat.JSON(f, m, chat.Options{}); {
	case f == chat.OpenAIResponses:
		items := rawjson.ArrayOf(raw)
		for from, to := range rawjson.Elements(items) {
			b.item(m, items[from:to])
		}
	case len(raw) == 0:
		b.mixed = true
		b.text = append(b.text, chat.Placeholder)
	default:
		b.message(raw)
	}
	if len(b.thinking) == 0 && b.hidden == 0 && m.Reasoning != "" {
		b.mixed = true
	}
	return b
}

// id returns the id of a call in a format.
func (b *Bill) id(f chat.Format, id string) string {
	most := callid.MostInResponses
	b.mixed = b.mixed || callid.Short(id, callid.MostInChat) != id
	switch f {
	case chat.AnthropicMessages:
		return id
	case chat.OpenAIChat:
		most = callid.MostInChat
	}
	return callid.Short(id, most)
}

// argumentsIn returns a call's arguments in a format. Anthropic's requires an object.
func argumentsIn(f chat.Format, arguments string) string {
	if f == chat.AnthropicMessages {
		return string(chat.Input(arguments))
	}
	return arguments
}

// OneForAll reports whether the message costs the same in every format: it consists of one text, calls and names.
func (b *Bill) OneForAll(m *chat.Message) bool {
	if b.mixed || len(b.text) > 1 || len(b.text) == 1 && b.text[0] != b.shown || m.Name != "" || m.Empty() {
		return false
	}
	for i := range m.Calls {
		if arguments := m.Calls[i].Arguments; argumentsIn(chat.AnthropicMessages, arguments) != arguments {
			return false
		}
	}
	return true
}

// Words returns what the tokenizer counts of the message, plus the fixed tokens.
func (b *Bill) Words(count func(string) int) int {
	return b.fixed + sum(b.text, count) + sum(b.words, count)
}

// Text returns the part of Words that is the message's own text, without the names of parts that a format shows with
// it.
func (b *Bill) Text(count func(string) int) int {
	n := sum(b.text, count)
	if strings.TrimSpace(b.shown) != "" && strings.Join(b.text, "\n") != b.shown {
		n = min(n, count(b.shown))
	}
	return n
}

// Thinking returns the part of Words that is thinking or reasoning.
func (b *Bill) Thinking(count func(string) int) int { return b.hidden + sum(b.thinking, count) }

// Media returns the cost of pictures, pages and sound by a rule. It does not depend on the tokenizer.
func (b *Bill) Media(r Rule) int { return b.media[r] }

func sum(texts []string, count func(string) int) (n int) {
	for _, s := range texts {
		n += count(s)
	}
	return n
}

// message reads a message in OpenAI's chat format or in Anthropic's.
func (b *Bill) message(raw []byte) {
	o, _, _ := rawjson.ReadObject(raw)
	b.content(o.Get("content"), &b.text)
	if refusal := o.Text("refusal"); refusal != "" {
		b.text = append(b.text, refusal)
	}
	if call := o.Get("function_call"); call != nil {
		b.values(call)
	}
	if o.Get("audio") != nil { // what the model said, under an id
		b.sound(spokenPerSecond * unknownSeconds)
	}
}

// item reads an item of a message in OpenAI's Responses.
func (b *Bill) item(m *chat.Message, raw []byte) {
	o, _, _ := rawjson.ReadObject(raw)
	switch kind := o.Text("type"); {
	case kind == "" || kind == "message" || kind == "a2a":
		b.content(o.Get("content"), &b.text)
	case m.Role == plan.RoleTool && o.Get("output") != nil:
		b.content(o.Get("output"), &b.text)
	case kind == "reasoning":
		b.mixed = true
		before := len(b.thinking)
		for _, name := range [...]string{"summary", "content"} {
			b.texts(o.Get(name), &b.thinking)
		}
		b.words = append(b.words, b.thinking[before:]...)
		if len(b.thinking) == before {
			b.conceal(o.Text("encrypted_content"))
		}
	case len(m.Calls) > 0 && o.Get("call_id") != nil: // counted with the message's calls
	default:
		b.fixed += perCall
		b.values(raw)
	}
}

// content reads a content: a text, null, or a list of parts. Texts are added to list.
func (b *Bill) content(value []byte, list *[]string) {
	if s, ok := rawjson.String(value); ok {
		if s != "" {
			*list = append(*list, s)
		}
		return
	}
	if !rawjson.IsArray(value) {
		if value != nil {
			b.values(value)
		}
		return
	}
	for from, to := range rawjson.Elements(value) {
		b.part(value[from:to], list)
	}
}

// part reads a content part of any format. An unknown part is counted by its texts.
func (b *Bill) part(raw []byte, list *[]string) {
	o, _, _ := rawjson.ReadObject(raw)
	switch kind := o.Text("type"); kind {
	case "text", "input_text", "output_text":
		if s := o.Text("text"); s != "" {
			*list = append(*list, s)
		}
		if cited := o.Get("citations"); cited != nil {
			b.values(cited)
		}
	case "refusal":
		*list = append(*list, o.Text("refusal"))
	case "tool_use": // counted with the message's calls
	case "tool_result":
		b.content(o.Get("content"), list)
	case "thinking":
		b.mixed = true
		if s := o.Text("thinking"); s != "" {
			b.thinking, b.words = append(b.thinking, s), append(b.words, s)
		} else {
			b.conceal(o.Text("signature"))
		}
	case "redacted_thinking":
		b.mixed = true
		b.conceal(o.Text("data"))
	case "image_url", "input_image", "computer_screenshot", "image":
		b.picture(kind, &o)
	case "input_audio":
		b.audio(&o)
	case "file", "input_file", "document":
		b.file(kind, &o)
	default:
		b.values(raw)
	}
}

// texts adds the member text of each object in a list.
func (b *Bill) texts(value []byte, list *[]string) {
	if !rawjson.IsArray(value) {
		return
	}
	for from, to := range rawjson.Elements(value) {
		o, _, _ := rawjson.ReadObject(value[from:to])
		if s := o.Text("text"); s != "" {
			*list = append(*list, s)
		}
	}
}

// conceal counts thinking that only the provider can read.
func (b *Bill) conceal(data string) {
	b.fixed += hidden(data)
	b.hidden += hidden(data)
}

// quiet are members that are not text for a model.
var quiet = map[string]bool{"type": true, "id": true, "call_id": true, "tool_use_id": true, "status": true,
	"role": true, "cache_control": true, "logprobs": true, "phase": true, "index": true, "start_index": true,
	"end_index": true}

// values counts the tokens of a value of unknown type by the texts in it. Members with encrypted data are estimated.
func (b *Bill) values(raw []byte) {
	b.mixed = true
	switch {
	case rawjson.IsObject(raw):
		o, _, _ := rawjson.ReadObject(raw)
		for i := range o.Fields {
			f := &o.Fields[i]
			name, value := string(f.Name), raw[f.Value:f.End]
			switch s, _ := rawjson.String(value); {
			case quiet[name]:
			case strings.HasPrefix(name, "encrypted_") || name == "signature" || name == "result" && len(s) > 4096:
				b.fixed += hidden(s)
			default:
				b.values(value)
			}
		}
	case rawjson.IsArray(raw):
		for from, to := range rawjson.Elements(raw) {
			b.values(raw[from:to])
		}
	default:
		s, ok := rawjson.String(raw)
		if !ok {
			s = string(raw)
		}
		if s != "" && s != "null" {
			b.words = append(b.words, s)
		}
	}
}

// add adds tokens that do not depend on the tokenizer.
func (b *Bill) add(tokens [rules]int) {
	b.mixed = true
	for r := range tokens {
		b.media[r] += tokens[r]
	}
}

func (b *Bill) sound(tokens int) {
	var same [rules]int
	for r := range same {
		same[r] = tokens
	}
	b.add(same)
}

func (b *Bill) audio(o *rawjson.Object) {
	inner, _, _ := rawjson.ReadObject(o.Get("input_audio"))
	if data := inner.Text("data"); data != "" {
		b.sound(soundTokens(data))
		return
	}
	b.sound(soundPerSecond * unknownSeconds)
}

// picture counts an image part.
func (b *Bill) picture(kind string, o *rawjson.Object) {
	if kind == "image" {
		source, _, _ := rawjson.ReadObject(o.Get("source"))
		b.add(anthropicTokens(sizeOfSource(source.Text("data"))))
		return
	}
	url, detail := o.Text("image_url"), o.Text("detail")
	if inner, _, ok := rawjson.ReadObject(o.Get("image_url")); ok {
		url, detail = inner.Text("url"), inner.Text("detail")
	}
	b.add(openAITokens(sizeOfSource(dataOf(url)), detail))
}

func sizeOfSource(data string) size {
	if data == "" {
		return unknownSize
	}
	return sizeOf(data)
}

// dataOf returns the base64 data in a data URL; empty if there is none.
func dataOf(url string) string {
	if rest, ok := strings.CutPrefix(url, "data:"); ok {
		_, data, _ := strings.Cut(rest, ";base64,")
		return data
	}
	return ""
}

// file counts a file part: a PDF by its pages, a text by its content, and a file that is elsewhere as a PDF of a few
// pages.
func (b *Bill) file(kind string, o *rawjson.Object) {
	b.mixed = true
	if kind != "document" {
		picture := openAITokens(page, "high")
		if inner, _, ok := rawjson.ReadObject(o.Get("file")); ok {
			o = &inner
		}
		b.words = append(b.words, o.Text("filename"))
		b.bytes(o.Text("file_data"), picture)
		return
	}
	b.words = append(b.words, o.Text("title"), o.Text("context"))
	picture := anthropicTokens(page)
	source, _, _ := rawjson.ReadObject(o.Get("source"))
	switch source.Text("type") {
	case "text":
		b.words = append(b.words, source.Text("data"))
	case "content":
		b.content(source.Get("content"), &b.words)
	case "base64":
		b.add(pageTokens(pages(source.Text("data")), picture))
	default:
		b.add(pageTokens(unknownPages, picture))
	}
}

// bytes counts a file in OpenAI's format, which is a data URL or only base64.
func (b *Bill) bytes(file string, picture [rules]int) {
	switch data := chat.FileData(file); {
	case data == "":
		b.add(pageTokens(unknownPages, picture))
	case chat.IsPDF(data):
		b.add(pageTokens(pages(data), picture))
	default:
		if text, ok := chat.PlainFile(file); ok {
			b.words = append(b.words, text)
		} else {
			b.fixed += hidden(data)
		}
	}
}

// Notice counts a system-class message: a summary, memories, a marker, or the request's system prompt.
func Notice(text string, count func(string) int) int {
	return perMessage + count("system") + count(text)
}

// Plain counts a message that consists of one text.
func Plain(role plan.Role, text string, count func(string) int) int {
	return perMessage + count(chat.RoleName(role)) + count(text)
}

// Lead returns what Anthropic's format adds if the window begins with an assistant's message.
func Lead(count func(string) int) int { return Plain(plan.RoleUser, chat.Placeholder, count) }
