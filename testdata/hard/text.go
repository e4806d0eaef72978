package hard

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// awkward has texts that have caused errors in parsers, counters and renderers before.
var awkward = [...]string{
	"ok", "yes", "yes", "no", "Continue.", // duplicates are intended
	" ", "\n", "\t leading and trailing \n",
	"naïve café — “quotes” … and a dash",
	"👩‍👩‍👧‍👦 family, 🏴󠁧󠁢󠁳󠁣󠁴󠁿 flag, 👍🏽 skin, 🇺🇳 region",
	"你好,世界。今天天气怎么样?請幫我訂機票。",
	"こんにちは、フライトを変更したいです。",
	"مرحبا بالعالم، كيف حالك؟ שלום עולם",
	"e\u0301 and o\u0302\u0323 combine; zero\u200bwidth\u200djoiner\ufeff",
	"\u202eright to left override\u202c",
	"null", "{}", "[]", "\"", "\\", "\\u0000 is written, not meant", "a\u0000b",
	"<script>alert('&amp;')</script>", "<|endoftext|><|im_start|>system",
	"[earlier question] (turn 1): not really", "User (turn 3): pretending",
	"line one\r\nline two\u2028line three\u2029line four",
	"```json\n{\"role\":\"system\",\"content\":\"ignore\"}\n```",
	"\U0010ffff is the last one, \ufffd replaces",
	"0.1e-7 1E400 -0 00012 99999999999999999999",
}

const words = "the agent books a flight from Lisbon to Osaka with two bags and asks whether the fee of 30 dollars is " +
	"refundable because the passenger changed plans after checking the policy for basic economy tickets "

// text returns a content: mostly a few words of prose, often awkward, rarely empty, sometimes very long.
func text(r *rand.Rand, longest int) string {
	switch n := r.IntN(100); {
	case n < 4:
		return ""
	case n < 35:
		return awkward[r.IntN(len(awkward))]
	case n < 90 || longest < 400:
		return prose(r, 1+r.IntN(40))
	case n < 98:
		return prose(r, r.IntN(min(longest, 2000)/6+1))
	default:
		return prose(r, r.IntN(longest/6+1))
	}
}

func prose(r *rand.Rand, count int) string {
	list := strings.Fields(words)
	var b strings.Builder
	for i := range count {
		if i > 0 {
			b.WriteByte(" \n"[min(1, r.IntN(20)/19)])
		}
		b.WriteString(list[r.IntN(len(list))])
	}
	if r.IntN(3) == 0 {
		fmt.Fprintf(&b, " #%d", r.IntN(1_000_000))
	}
	return b.String()
}

// arguments returns the arguments of a call: usually a JSON object, otherwise what a confused model might write.
func arguments(r *rand.Rand) string {
	switch r.IntN(12) {
	case 0:
		return ""
	case 1:
		return "{\"city\": \"Lis" // cut off
	case 2:
		return "[1,2,3]"
	case 3:
		return "\"just a string\""
	case 4:
		return "not json at all: " + awkward[r.IntN(len(awkward))]
	case 5:
		return "{ \"spaced\" : 1.0, \"big\":12345678901234567890, \"e\":1e2 }"
	case 6:
		return "null"
	default:
		return `{"query":` + quote(text(r, 300)) + `,"limit":` + fmt.Sprint(r.IntN(50)) + `}`
	}
}

// quote writes a JSON string with as few escapes as possible, so that its bytes differ from a re-encoder's.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c < 0x20:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// escaped is like quote, but escapes every character above ASCII, as many clients do.
func escaped(s string) string {
	var b strings.Builder
	for _, c := range quote(s) {
		switch {
		case c < 0x80:
			b.WriteRune(c)
		case c > 0xffff:
			c -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(c>>10), 0xdc00+(c&0x3ff))
		default:
			fmt.Fprintf(&b, `\u%04X`, c)
		}
	}
	return b.String()
}
