package tokens_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
)

// pixels returns a picture of a size, in a format of package image, as base64.
func pixels(t testing.TB, format string, w, h int) string {
	t.Helper()
	var b bytes.Buffer
	img := image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black, color.White})
	var err error
	switch format {
	case "png":
		err = png.Encode(&b, img)
	case "jpeg":
		err = jpeg.Encode(&b, img, nil)
	case "gif":
		err = gif.Encode(&b, img, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// webp returns the head of a picture in one of WebP's three kinds.
func webp(kind string, w, h int) string {
	le := binary.LittleEndian
	b := []byte("RIFF\x00\x00\x00\x00WEBP" + kind)
	switch kind {
	case "VP8 ":
		b = append(b, make([]byte, 10)...)
		b = le.AppendUint16(le.AppendUint16(b, uint16(w)), uint16(h))
	case "VP8L":
		b = append(b, 0, 0, 0, 0, 0x2f)
		b = le.AppendUint32(b, uint32(w-1)|uint32(h-1)<<14)
	case "VP8X":
		b = append(b, make([]byte, 8)...)
		b = append(b, byte(w-1), byte((w-1)>>8), byte((w-1)>>16), byte(h-1), byte((h-1)>>8), byte((h-1)>>16))
	}
	return base64.StdEncoding.EncodeToString(append(b, make([]byte, 16)...))
}

// parsed parses a posted message; in OpenAI's Responses, a list of items.
func parsed(t testing.TB, f chat.Format, raw string) *chat.Message {
	t.Helper()
	in := []json.RawMessage{json.RawMessage(raw)}
	if f == chat.OpenAIResponses {
		if err := json.Unmarshal([]byte(raw), &in); err != nil {
			t.Fatal(err)
		}
	}
	got, _, bad := chat.Parse(f, in)
	if len(bad) > 0 || len(got) != 1 {
		t.Fatalf("%s: %d messages, %v", raw, len(got), bad)
	}
	return &got[0].Message
}

// Pictures cost what the providers' documentation says and what was measured.
func TestPictures(t *testing.T) {
	for _, c := range []struct {
		w, h   int
		detail string
		// published: OpenAI by patches and by tiles, Anthropic from 4.7 on and before; 0 if none is
		patches, tiles, newer, older int
	}{
		{1024, 1024, "high", 1229, 765, 1369, 1369},
		{1024, 1024, "low", 308, 85, 1369, 1369},
		{2048, 2048, "high", 3000, 765, 4761, 1521},
		{2400, 2400, "auto", 6750, 765, 4761, 1521},
		{2048, 4096, "high", 0, 1105, 0, 0},
		{200, 200, "", 59, 255, 64, 64},
		{1000, 1000, "", 0, 0, 1296, 1296},
		{1920, 1080, "", 0, 0, 2691, 1560},
		{1800, 2400, "high", 0, 0, 0, 0},
	} {
		for name, data := range map[string]string{
			"image/png": pixels(t, "png", c.w, c.h), "image/jpeg": pixels(t, "jpeg", c.w, c.h),
			"image/gif": pixels(t, "gif", c.w, c.h), "image/webp": webp("VP8X", c.w, c.h),
			"image/webp;1": webp("VP8 ", c.w, c.h), "image/webp;2": webp("VP8L", c.w, c.h),
		} {
			kind, _, _ := strings.Cut(name, ";")
			url := fmt.Sprintf(`"data:%s;base64,%s"`, kind, data)
			forms := map[chat.Format]string{
				chat.OpenAIChat: `{"role":"user","content":[{"type":"image_url","image_url":{"url":` + url +
					`,"detail":"` + c.detail + `"}}]}`,
				chat.OpenAIResponses: `[{"role":"user","content":[{"type":"input_image","image_url":` + url +
					`,"detail":"` + c.detail + `"}]}]`,
				chat.AnthropicMessages: `{"role":"user","content":[{"type":"image","source":{"type":"base64",` +
					`"media_type":"` + kind + `","data":"` + data + `"}}]}`,
			}
			for f, raw := range forms {
				b := tokens.Of(f, parsed(t, f, raw))
				want := [2]int{c.patches, c.tiles}
				if f == chat.AnthropicMessages {
					want = [2]int{c.newer, c.older}
				}
				got := [2]int{b.Media(tokens.Current), b.Media(tokens.Earlier)}
				for i := range want {
					if want[i] > 0 && got[i] != want[i] {
						t.Errorf("%dx%d %q %s in %s: %v tokens, want %v", c.w, c.h, c.detail, name, f, got, want)
						break
					}
				}
			}
		}
	}
}

// The largest picture within one of Anthropic's limits stays within it.
func FuzzPictures(f *testing.F) {
	f.Add(uint16(1920), uint16(1080))
	f.Add(uint16(1), uint16(65535))
	f.Add(uint16(8000), uint16(6000))
	f.Fuzz(func(t *testing.T, w, h uint16) {
		if w == 0 || h == 0 || w > 16383 || h > 16383 {
			t.Skip()
		}
		m := parsed(t, chat.AnthropicMessages, `{"role":"user","content":[{"type":"image","source":{"type":"base64",`+
			`"media_type":"image/webp","data":"`+webp("VP8L", int(w), int(h))+`"}}]}`)
		b := tokens.Of(chat.AnthropicMessages, m)
		for rule, most := range map[tokens.Rule]int{tokens.Current: 4784, tokens.Earlier: 1568} {
			got, whole := b.Media(rule), (int(w)+27)/28*((int(h)+27)/28)
			if got > most || got < 1 || got > whole || whole <= 1568 && max(w, h) <= 1568 && got != whole {
				t.Errorf("%dx%d: %d tokens by rule %d, whole %d", w, h, got, rule, whole)
			}
		}
		for _, detail := range []string{"low", "high", "auto"} {
			m := parsed(t, chat.OpenAIChat, `{"role":"user","content":[{"type":"image_url","image_url":{"detail":"`+
				detail+`","url":"data:image/webp;base64,`+webp("VP8L", int(w), int(h))+`"}}]}`)
			b := tokens.Of(chat.OpenAIChat, m)
			if n := b.Media(tokens.Current); n < 1 || detail == "low" && n > 308 || detail == "high" && n > 3000 {
				t.Errorf("%dx%d %s: %d tokens", w, h, detail, n)
			}
			if n := b.Media(tokens.Earlier); n < 85 || n > 85+170*8 {
				t.Errorf("%dx%d %s: %d tokens in tiles", w, h, detail, n)
			}
		}
	})
}

// pdf returns a document of n pages; with hidden, the pages are in a compressed stream.
func pdf(n int, hidden bool) string {
	var b strings.Builder
	b.WriteString("%PDF-1.7\n1 0 obj <</Type /Pages /Count ")
	fmt.Fprintf(&b, "%d>>\n", n)
	for i := range n {
		if !hidden {
			fmt.Fprintf(&b, "%d 0 obj <</Type/Page /Parent 1 0 R>> endobj\n", i+2)
		}
	}
	return base64.StdEncoding.EncodeToString([]byte(b.String()))
}

// wav returns a sound of so many seconds at 16,000 bytes per second.
func wav(seconds int) string {
	le := binary.LittleEndian
	b := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt "), 16, 0, 0, 0, 1, 0, 1, 0)
	b = le.AppendUint32(le.AppendUint32(b, 8000), 16000)
	return base64.StdEncoding.EncodeToString(append(b, make([]byte, seconds*16000)...))
}

// mp3 returns a sound of so many seconds at 64 kbit/s, after a tag.
func mp3(seconds int) string {
	b := append([]byte("ID3\x04\x00\x00\x00\x00\x00\x0a0123456789"), 0xff, 0xfb, 0x50, 0)
	return base64.StdEncoding.EncodeToString(append(b, make([]byte, seconds*8000-20)...))
}

// Every kind of part costs, in its own format and in the others, what this test computes independently: the texts that
// the window shows, and what is published or estimated for the rest.
func TestPartsOfEveryKind(t *testing.T) {
	count := counter(t, "o200k_base")
	long := strings.Repeat("Whatever the model thought, it counts. ", 400)
	const user, assistant, toolRole = 3 + 1, 3 + 1, 3 + 1
	pageOpenAI, pageAnthropic := 2250+38*49*6/5+1, 2250+44*56
	c, a, r := chat.OpenAIChat, chat.AnthropicMessages, chat.OpenAIResponses
	for _, test := range []struct {
		name string
		f    chat.Format
		raw  string
		want map[chat.Format]int
	}{
		{"a text", c, `{"role":"user","content":"hello there"}`, map[chat.Format]int{
			c: user + 2, a: user + 2, r: user + 2}},
		{"a name", c, `{"role":"user","name":"Ada","content":"hello there"}`, map[chat.Format]int{
			c: user + 2 + 1 + count("Ada"), a: user + 2, r: user + 2}},
		{"two texts", c, `{"role":"user","content":[{"type":"text","text":"hello there"},{"type":"text","text":"you"}]}`,
			map[chat.Format]int{c: user + 3, a: user + 3, r: user + count("hello there\nyou")}},
		{"calls and ids", c, `{"role":"assistant","content":null,"tool_calls":[{"id":"call_abc123","type":"function",` +
			`"function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]}`, map[chat.Format]int{
			c: assistant + 3 + count("get_weather") + count(`{"city":"Oslo"}`) + count("call_abc123"),
			a: assistant + 3 + count("get_weather") + count(`{"city":"Oslo"}`) + count("call_abc123"),
			r: assistant + 3 + count("get_weather") + count(`{"city":"Oslo"}`) + count("call_abc123")}},
		{"a call without arguments", c, `{"role":"assistant","content":"ok","tool_calls":[{"id":"c","type":"function",` +
			`"function":{"name":"f","arguments":""}}]}`, map[chat.Format]int{
			c: assistant + 1 + 3 + 2, a: assistant + 1 + 3 + 2 + count("{}"), r: assistant + 1 + 3 + 2}},
		{"a result", a, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01A","content":"4 degrees"}]}`,
			map[chat.Format]int{c: toolRole + count("toolu_01A") + count("4 degrees"),
				a: toolRole + count("toolu_01A") + count("4 degrees"), r: toolRole + count("toolu_01A") + count("4 degrees")}},
		{"an empty message", c, `{"role":"assistant","content":""}`, map[chat.Format]int{
			c: assistant, a: assistant + count("…"), r: assistant}},
		{"thinking", a, `{"role":"assistant","content":[{"type":"thinking","thinking":"` + long +
			`","signature":"EqQB"},{"type":"text","text":"Yes."}]}`, map[chat.Format]int{
			a: assistant + count(long) + count("Yes."), c: assistant + count("Yes."), r: assistant + count("Yes.")}},
		{"thinking that is not shown", a, `{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"` +
			strings.Repeat("abcd", 400) + `"},{"type":"text","text":"Yes."}]}`, map[chat.Format]int{
			a: assistant + 300 + count("Yes."), c: assistant + count("Yes.")}},
		{"redacted thinking", a, `{"role":"assistant","content":[{"type":"redacted_thinking","data":"` +
			strings.Repeat("abcd", 400) + `"},{"type":"text","text":"Yes."}]}`, map[chat.Format]int{
			a: assistant + 300 + count("Yes."), c: assistant + count("Yes.")}},
		{"reasoning", r, `[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"` + long + `"}]},` +
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes.","annotations":[]}]}]`,
			map[chat.Format]int{r: assistant + count(long) + count("Yes."), c: assistant + count("Yes.")}},
		{"hidden reasoning", r, `[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"` +
			strings.Repeat("abcd", 400) + `"},{"type":"message","role":"assistant","content":"Yes."}]`,
			map[chat.Format]int{r: assistant + 300 + count("Yes."), a: assistant + count("Yes.")}},
		{"our own reasoning", c, `{"role":"assistant","content":"Yes.","reasoning":"` + long + `"}`,
			map[chat.Format]int{c: assistant + count("Yes."), a: assistant + count("Yes."), r: assistant + count("Yes.")}},
		{"a text document", a, `{"role":"user","content":[{"type":"document","title":"Log","source":{"type":"text",` +
			`"media_type":"text/plain","data":"` + long + `"}},{"type":"text","text":"What is it?"}]}`,
			map[chat.Format]int{a: user + count("Log") + count(long) + count("What is it?")}},
		{"a document of blocks", a, `{"role":"user","content":[{"type":"document","source":{"type":"content","content":[` +
			`{"type":"text","text":"` + long + `"}]}}]}`, map[chat.Format]int{a: user + count(long)}},
		{"a PDF", a, `{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":` +
			`"application/pdf","data":"` + pdf(7, false) + `"}}]}`, map[chat.Format]int{a: user + 7*pageAnthropic}},
		{"a PDF that hides its pages", a, `{"role":"user","content":[{"type":"document","source":{"type":"base64",` +
			`"media_type":"application/pdf","data":"` + pdf(9, true) + `"}}]}`, map[chat.Format]int{
			a: user + 9*pageAnthropic}},
		{"a PDF elsewhere", a, `{"role":"user","content":[{"type":"document","source":{"type":"url","url":"https://a/b.pdf"}}]}`,
			map[chat.Format]int{a: user + 4*pageAnthropic}},
		{"a PDF in chat", c, `{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":` +
			`"data:application/pdf;base64,` + pdf(3, false) + `"}}]}`, map[chat.Format]int{
			c: user + count("a.pdf") + 3*pageOpenAI, a: user + count("[file]")}},
		{"a text file in Responses", r, `[{"role":"user","content":[{"type":"input_file","filename":"a.txt","file_data":` +
			`"data:text/plain;base64,` + base64.StdEncoding.EncodeToString([]byte(long)) + `"}]}]`, map[chat.Format]int{
			r: user + count("a.txt") + count(long), c: user + count("[input_file]")}},
		{"sound", c, `{"role":"user","content":[{"type":"input_audio","input_audio":{"format":"wav","data":"` + wav(30) +
			`"}}]}`, map[chat.Format]int{c: user + 300, a: user + count("[input_audio]")}},
		{"an MP3", c, `{"role":"user","content":[{"type":"input_audio","input_audio":{"format":"mp3","data":"` + mp3(20) +
			`"}}]}`, map[chat.Format]int{c: user + 200}},
		{"a picture elsewhere", c, `{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image_url",` +
			`"image_url":{"url":"https://example.org/a.png"}}]}`, map[chat.Format]int{
			c: user + count("What is it?") + 1229, a: user + count("What is it?") + 1369,
			r: user + count("What is it?") + 1229}},
		{"a picture in a result", a, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[` +
			`{"type":"text","text":"Here."},{"type":"image","source":{"type":"url","url":"https://a/b.png"}}]}]}`,
			map[chat.Format]int{a: toolRole + 1 + count("Here.") + 1369, r: toolRole + 1 + count("Here.") + 1229,
				c: toolRole + 1 + count("Here.\n[image]")}},
		{"what nobody knows", a, `{"role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":` +
			`"web_search","input":{"query":"` + long + `"}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1",` +
			`"content":[{"type":"web_search_result","title":"A page","encrypted_content":"` + strings.Repeat("abcd", 400) +
			`"}]},{"type":"text","text":"Yes."}]}`, map[chat.Format]int{
			a: assistant + count("web_search") + count(long) + count("A page") + 300 + count("Yes.")}},
	} {
		m := parsed(t, test.f, test.raw)
		for f, want := range test.want {
			b := tokens.Of(f, m)
			got := b.Words(count) + b.Media(tokens.Current)
			if diff := got - want; diff*diff*10000 > 9*want*want && diff*diff > 1 {
				t.Errorf("%s in %s: %d tokens, want %d", test.name, f, got, want)
			}
			if one := tokens.Of(test.f, m).OneForAll(m); one && got != tokens.Of(test.f, m).Words(count) {
				t.Errorf("%s costs %d in %s, and it is said to cost the same everywhere", test.name, got, f)
			}
		}
	}
}

// Replacing a message's text replaces exactly the tokens of that text.
func TestTextIsAPartOfWords(t *testing.T) {
	count := counter(t, "o200k_base")
	for _, raw := range []string{
		`{"role":"user","content":"some words"}`,
		`{"role":"user","content":[{"type":"text","text":"some words"},{"type":"text","text":"and more"}]}`,
		`{"role":"user","content":[{"type":"text","text":"some words"},{"type":"image","source":{"type":"file","file_id":"f"}}]}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"some words"},` +
			`{"type":"image","source":{"type":"url","url":"https://a/b.png"}}]}]}`,
	} {
		m := parsed(t, chat.AnthropicMessages, raw)
		changed := m.WithText("another text altogether")
		for _, f := range []chat.Format{chat.OpenAIChat, chat.AnthropicMessages, chat.OpenAIResponses} {
			b := tokens.Of(f, m)
			got := b.Words(count) - b.Text(count) + count("another text altogether")
			want := tokens.Of(f, &changed).Words(count)
			if diff := got - want; diff < -1 || diff > 1 {
				t.Errorf("%s in %s: %d tokens with another text, want %d", raw, f, got, want)
			}
		}
	}
}
