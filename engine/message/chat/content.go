package chat

import (
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// partKind is the kind of a content part, in any format.
type partKind uint8

const (
	partOther partKind = iota // kept as it is; other formats show its type
	partText
	partImage
	partCall     // Anthropic's tool_use
	partResult   // Anthropic's tool_result
	partThinking // Anthropic's thinking and redacted_thinking
)

// screenshot is the type of the output of a computer_call in Responses.
const screenshot = "computer_screenshot"

// part is one element of a content array.
type part struct {
	o    object
	kind partKind
	typ  string
	text string // of partText
}

// readPart reads one content part of a message posted in a format. No two formats use one name for different things, so
// texts and images are read alike for all. Only Anthropic's format has blocks that are calls, results or thinking.
func readPart(f Format, raw []byte) (part, *problem) {
	o, bad := readObject(raw)
	if bad != nil {
		return part{}, bad.in("content part")
	}
	p := part{o: o}
	var ok bool
	if p.typ, ok = rawjson.String(o.Get("type")); !ok || p.typ == "" {
		return p, &problem{CodeMalformed, "each content part needs a type, for example {\"type\":\"text\"}"}
	}
	switch p.typ {
	case "text", "input_text", "output_text":
		p.kind = partText
		if p.text, ok = rawjson.String(o.Get("text")); !ok {
			return p, &problem{CodeMalformed, "a content part of type " + p.typ + " needs its text, a string"}
		}
	case "refusal":
		p.kind = partText
		if p.text, ok = rawjson.String(o.Get("refusal")); !ok {
			return p, &problem{CodeMalformed, "a content part of type refusal needs refusal, a string"}
		}
	case "image_url", "input_image", "image", screenshot:
		p.kind = partImage
	}
	if f == AnthropicMessages {
		switch p.typ {
		case "tool_use":
			p.kind = partCall
		case "tool_result":
			p.kind = partResult
		case "thinking", "redacted_thinking":
			p.kind = partThinking
		}
	}
	return p, nil
}

// content is what the canonical message keeps of a posted content.
type content struct {
	texts  []string
	images int
	parts  plan.Parts
}

// read reads a content without calls or results: a string, null or an array of parts.
func (c *content) read(f Format, value []byte) *problem {
	if value == nil {
		return nil
	}
	if s, ok := rawjson.String(value); ok {
		c.addText(s)
		return nil
	}
	if !rawjson.IsArray(value) {
		return &problem{CodeMalformed, "content must be a string, an array of parts or null"}
	}
	for from, to := range rawjson.Elements(value) {
		p, bad := readPart(f, value[from:to])
		if bad != nil {
			return bad
		}
		c.add(&p)
	}
	return nil
}

func (c *content) add(p *part) {
	c.parts |= PartOf(p.typ)
	switch p.kind {
	case partText:
		c.addText(p.text)
	case partImage:
		c.images++
	}
}

func (c *content) addText(s string) {
	if s != "" {
		c.texts = append(c.texts, s)
	}
}

// setContent sets the message's text and its number of images.
func (m *Message) setContent(c *content) {
	m.Text, m.Images = c.text(), c.images
	m.Parts |= c.parts
	if m.Reasoning != "" {
		m.Parts |= plan.PartThinking
	}
}

func (c *content) text() string { return strings.Join(c.texts, "\n") }

// parts returns the parts of a message's content for a translation: texts, images and others, in order.
func (m *Message) parts() []part {
	if m.Raw == nil {
		return []part{{kind: partText, text: m.Text}}
	}
	var ps []part
	if m.Format == OpenAIResponses {
		for from, to := range rawjson.Elements(m.Raw) {
			item, _ := readObject(m.Raw[from:to])
			ps = append(ps, itemParts(&item)...)
		}
		return ps
	}
	o, _ := readObject(m.Raw)
	ps = appendParts(m.Format, ps, o.Get("content"))
	if refusal := m.refusal(&o); refusal != "" {
		ps = append(ps, part{kind: partText, text: refusal})
	}
	return ps
}

// refusal returns the text of the member refusal of an OpenAI assistant message.
func (m *Message) refusal(o *object) string {
	if m.Format != OpenAIChat || m.Role != plan.RoleAssistant {
		return ""
	}
	return o.Text("refusal")
}

func appendParts(f Format, ps []part, value []byte) []part {
	if s, ok := rawjson.String(value); ok {
		return append(ps, part{kind: partText, text: s})
	}
	if !rawjson.IsArray(value) {
		return ps
	}
	for from, to := range rawjson.Elements(value) {
		p, _ := readPart(f, value[from:to])
		switch p.kind {
		case partCall, partThinking:
		case partResult:
			ps = appendParts(f, ps, p.o.Get("content"))
		default:
			ps = append(ps, p)
		}
	}
	return ps
}

// plain reports whether all parts are text.
func plain(ps []part) bool {
	for i := range ps {
		if ps[i].kind != partText {
			return false
		}
	}
	return true
}

// flat returns the content as text. Parts that are not text appear in brackets, such as [image].
func flat(ps []part) string {
	var b strings.Builder
	for i := range ps {
		s := ps[i].shown()
		if s == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(s)
	}
	return b.String()
}

// shown returns a part as text.
func (p *part) shown() string {
	switch p.kind {
	case partText:
		return p.text
	case partImage:
		return "[image]"
	}
	if text := p.document(); text != "" {
		return text
	}
	return "[" + p.typ + "]"
}

// document returns the text of a text document, preceded by its title, or "" for other parts. Formats without documents
// show it.
func (p *part) document() string {
	var text string
	switch source, bad := readObject(p.o.Get("source")); {
	case p.typ == "search_result":
		text = flat(appendParts(AnthropicMessages, nil, p.o.Get("content")))
	case p.typ != "document" || bad != nil:
		return ""
	case source.Text("type") == "text":
		text = source.Text("data")
	case source.Text("type") == "content":
		text = flat(appendParts(AnthropicMessages, nil, source.Get("content")))
	}
	if title := p.o.Text("title"); title != "" && text != "" {
		return title + "\n" + text
	}
	return text
}

// image says where the bytes of an image are: at a URL, or in base64 data of a media type. If both are empty, the
// provider stores them under an id that other providers do not know.
type image struct{ url, mediaType, data string }

// source returns the location of an image part's bytes, in any format.
func (p *part) source() image {
	var url string
	switch p.typ {
	case "image_url":
		if s, ok := rawjson.String(p.o.Get("image_url")); ok {
			url = s
		} else if o, bad := readObject(p.o.Get("image_url")); bad == nil {
			url = o.Text("url")
		}
	case "input_image", screenshot:
		url = p.o.Text("image_url")
	case "image":
		o, bad := readObject(p.o.Get("source"))
		if bad != nil {
			return image{}
		}
		if o.Text("type") == "base64" {
			return image{mediaType: o.Text("media_type"), data: o.Text("data")}
		}
		url = o.Text("url")
	}
	if rest, ok := strings.CutPrefix(url, "data:"); ok {
		if mediaType, data, ok := strings.Cut(rest, ";base64,"); ok {
			return image{mediaType: mediaType, data: data}
		}
		return image{}
	}
	return image{url: url}
}

// dataURL returns the image as one URL, or "" if it has none.
func (i image) dataURL() string {
	if i.data != "" {
		return "data:" + i.mediaType + ";base64," + i.data
	}
	return i.url
}
