package chat

import (
	"encoding/base64"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Document is a text document, a file that is text, or a search result inside a tool's message. A window may cut it as
// it cuts the message's text.
type Document struct {
	Text string     // without the title
	Part plan.Parts // the kind of part, as policies know it; 0 for a search result
	File bool       // only the format of the message shows it
}

// Documents returns the text documents of a tool's message that are not empty, in order, and reports whether it has
// others: PDFs, and documents at a provider or a website. It returns nil for other roles.
func (m *Message) Documents() (documents []Document, others bool) {
	m.editDocuments(func(p *part, text string) []byte {
		if text != "" {
			documents = append(documents, Document{Text: text, Part: PartOf(p.typ), File: p.isFile()})
		} else if PartOf(p.typ) == plan.PartDocument {
			others = true
		}
		return p.o.Raw
	})
	return documents, others
}

// WithDocuments returns the message with other texts for its Documents. A document whose text changes keeps everything
// but its citations, which refer to positions in the text. texts has one element for each document.
func (m *Message) WithDocuments(texts []string) Message {
	out, at := *m, 0
	raw := m.editDocuments(func(p *part, text string) []byte {
		if text == "" {
			return p.o.Raw
		}
		if at++; texts[at-1] == text {
			return p.o.Raw
		}
		out.uncited = out.uncited || p.cites()
		return p.withDocument(texts[at-1])
	})
	out.Raw = raw
	return out
}

// WithoutDocuments returns the message without its Documents.
func (m *Message) WithoutDocuments() Message {
	out := *m
	out.Raw = m.editDocuments(func(p *part, text string) []byte {
		if text != "" {
			return nil
		}
		return p.o.Raw
	})
	return out
}

// editDocuments calls change for each part of a tool's message that is not text, with the text of a document or "". It
// returns Raw with each part replaced by the result of change; nil removes the part.
func (m *Message) editDocuments(change func(p *part, text string) []byte) []byte {
	if m.Role != plan.RoleTool || m.Raw == nil {
		return m.Raw
	}
	if m.Format == OpenAIResponses {
		return eachElement(m.Raw, func(raw []byte) []byte {
			o, _ := readObject(raw)
			output := o.Get("output")
			if !IsOutputItem(itemKind(&o)) || !typedParts(output) {
				return raw
			}
			return withMember(&o, "output", output, editParts(OpenAIResponses, output, change))
		})
	}
	o, _ := readObject(m.Raw)
	content := o.Get("content")
	edited := content
	if m.Format == AnthropicMessages {
		edited = eachElement(content, func(raw []byte) []byte {
			p, _ := readPart(AnthropicMessages, raw)
			inner := p.o.Get("content")
			if p.kind != partResult {
				return raw
			}
			return withMember(&p.o, "content", inner, editParts(AnthropicMessages, inner, change))
		})
	} else {
		edited = editParts(OpenAIChat, content, change)
	}
	return withMember(&o, "content", content, edited)
}

// editParts calls change for the parts of a content that are not texts.
func editParts(f Format, content []byte, change func(p *part, text string) []byte) []byte {
	return eachElement(content, func(raw []byte) []byte {
		p, bad := readPart(f, raw)
		if bad != nil || p.kind == partText {
			return raw
		}
		return change(&p, p.documentText())
	})
}

// eachElement returns an array with each element replaced by the result of change; nil removes it. If nothing changes,
// or the value is not an array, the result is the value itself.
func eachElement(list []byte, change func(raw []byte) []byte) []byte {
	if !rawjson.IsArray(list) {
		return list
	}
	var out [][]byte
	changed := false
	for from, to := range rawjson.Elements(list) {
		raw := list[from:to]
		with := change(raw)
		changed = changed || !sameBytes(with, raw)
		if with != nil {
			out = append(out, with)
		}
	}
	if !changed {
		return list
	}
	return rawjson.ArrayOf(out...)
}

// withMember returns an object in which a member was changed from one value to another.
func withMember(o *object, name string, was, value []byte) []byte {
	if sameBytes(was, value) {
		return o.Raw
	}
	return o.With(name, value)
}

// sameBytes reports whether two values are the same bytes in memory.
func sameBytes(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func (p *part) isFile() bool { return p.typ == "file" || p.typ == "input_file" }

// documentText returns the text of a text document, a text file or a search result, without its title. It is "" for
// other parts and for documents that are not text.
func (p *part) documentText() string {
	switch p.typ {
	case "search_result":
		return textOf(p.o.Get("content"))
	case "document":
		switch source, _ := readObject(p.o.Get("source")); source.Text("type") {
		case "text":
			return source.Text("data")
		case "content":
			return textOf(source.Get("content"))
		}
	case "file", "input_file":
		o := p.file()
		text, _ := PlainFile(o.Text("file_data"))
		return text
	}
	return ""
}

// textOf returns the texts of a content without calls or results, joined by newlines.
func textOf(value []byte) string {
	var c content
	if bad := c.read(AnthropicMessages, value); bad != nil {
		return ""
	}
	return c.text()
}

// file returns the object with the data of a file part.
func (p *part) file() object {
	if o, bad := readObject(p.o.Get("file")); bad == nil {
		return o
	}
	return p.o
}

// withDocument returns the part with another text and without citations.
func (p *part) withDocument(text string) []byte {
	name, value := "", []byte(nil)
	switch p.typ {
	case "search_result":
		name, value = "content", contentWithText(AnthropicMessages, p.o.Get("content"), text, "text")
	case "document":
		source, _ := readObject(p.o.Get("source"))
		name, value = "source", source.With("data", rawjson.AppendString(nil, text))
		if source.Text("type") == "content" {
			value = source.With("content", contentWithText(AnthropicMessages, source.Get("content"), text, "text"))
		}
	default:
		o := p.file()
		data := rawjson.AppendString(nil, withPlainFile(o.Text("file_data"), text))
		if p.o.Get("file") == nil {
			return o.With("file_data", data)
		}
		return p.o.With("file", o.With("file_data", data))
	}
	o, _ := readObject(p.o.With(name, value))
	return o.Without(func(_ *object, f *field) bool { return string(f.Name) == "citations" })
}

// IsPDF reports whether base64 data is a PDF.
func IsPDF(data string) bool { return strings.HasPrefix(data, "JVBER") }

// PlainFile returns the text of a file in OpenAI's format, which is a data URL or only base64; false if it is not text.
func PlainFile(file string) (text string, ok bool) {
	data := FileData(file)
	if data == "" || IsPDF(data) {
		return "", false
	}
	b, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, strings.NewReader(data)))
	if err != nil || !utf8.Valid(b) {
		return "", false
	}
	return string(b), true
}

// FileData returns the base64 data of a file in OpenAI's format.
func FileData(file string) string {
	if rest, ok := strings.CutPrefix(file, "data:"); ok {
		if _, data, _ := strings.Cut(rest, ";base64,"); data != "" {
			return data
		}
	}
	return file
}

// withPlainFile returns a file with another text, in the form of the given one.
func withPlainFile(file, text string) string {
	before := strings.TrimSuffix(file, FileData(file))
	return before + base64.StdEncoding.EncodeToString([]byte(text))
}
