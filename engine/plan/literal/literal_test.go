package literal_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan/literal"
)

// texts returns the literals of a list in the order of the message, as LABEL:TEXT.
func texts(l literal.List) (out []string) {
	for is := range l.LastFirst() {
		out = append(out, is.Label+":"+is.Text)
	}
	slices.Reverse(out)
	return out
}

func TestOf(t *testing.T) {
	for text, want := range map[string][]string{
		"":                           nil,
		"Nothing to name here, at 5": nil,
		`{"user_id": "mia_li_3668", "flights": ["HAT271", "HAT197"]}`: {"user_id:mia_li_3668", "flights:HAT271", "flights:HAT197"},
		"My booking is ZFAOKY.":                       {"booking:ZFAOKY"},
		"ZFAOKYX is no code, ZFAOK neither.":          nil,
		"write to mia@example.com, please":            {"write:mia@example.com"},
		"see /usr/lib/libc.so.6, or ../a/bc/ or a/bc": {":/usr/lib/libc.so.6"},
		"see ../src/main.go":                          {":/src/main.go"},
		"on 2024-05-15 at 10:30":                      {":2024-05-15"},
		"the total of $1,234.50 is 12":                {"total:234.50"},
		"order #W2378156 and -A12B- and A12":          {"order:#W2378156", "order:A12B"},
		"<h1x2> <div> <b>H1X2</b>":                    {":H1X2"},
		"<amount>500</amount>":                        {"amount:500"},
		"Größe: 1234 Ключ: А12345":                    {"Größe:1234", "Ключ:А12345"},
		"first A1234 then B1234 then A1234":           {"then:B1234", "then:A1234"},
		strings.Repeat("a1", 33) + " x1y2":            {":x1y2"},
		"a_label_of_more_than_24_b is A1234":          {":a_label_of_more_than_24_b", ":A1234"},
	} {
		if got := texts(literal.Of(text)); !slices.Equal(got, want) {
			t.Errorf("%q has the literals %q, want %q", text, got, want)
		}
	}
}

// The arguments of calls follow the text, their labels may come from it, and escapes of JSON are no part of a literal.
func TestOfArguments(t *testing.T) {
	got := texts(literal.Of("I cancel order:", "A100", `{"note":"one\nB200\tC300 é9A \u0041D400","path":"\/tmp\/E500"}`, `{"truncated":"\`))
	want := []string{"order:A100", "note:B200", "note:C300", "note:é9A", "note:D400", "path:/E500"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A list holds the last different literals, and no more bytes than it may.
func TestOfBounds(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "id A%04d ", i)
	}
	got := texts(literal.Of(b.String()))
	if len(got) != literal.Most || got[0] != ":A0024" || got[15] != ":A0039" {
		t.Errorf("%d literals: %q", len(got), got)
	}
	b.Reset()
	for i := range 40 {
		fmt.Fprintf(&b, "label_%c A%054d ", 'a'+i%26, i)
	}
	got = texts(literal.Of(b.String()))
	if len(got) != 6 || !strings.HasSuffix(got[5], "39") { // 6 × (55 + 7) bytes are 372
		t.Errorf("%d long literals: %q", len(got), got)
	}
}

// all is a slow reading of the rule: all literals of a text, in order.
func all(text string, json bool, label string) (out []literal.Literal, last string) {
	if json {
		text = regexp.MustCompile(`\\(?:u.{0,4}|[^u/]|$|)`).ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat(" ", len(s)) })
	}
	for _, at := range run.FindAllStringIndex(text, -1) {
		of := text[at[0]:at[1]]
		for len(of) > 0 && (of[0] == '.' || of[0] == '-') {
			of = of[1:]
		}
		for len(of) > 0 && strings.ContainsRune(".-/", rune(of[len(of)-1])) {
			of = of[:len(of)-1]
		}
		digits, ascii, letters := 0, 0, 0
		for i := range len(of) {
			switch c := of[i]; {
			case c >= '0' && c <= '9':
				digits++
			case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
				ascii++
				letters++
			case c >= 0xc0:
				letters++
			}
		}
		is := digits >= 3 || digits > 0 && ascii > 0 && len(of) >= 4 || len(of) > 5 && strings.ContainsAny(of, "@/") ||
			capitals.MatchString(of)
		switch behind := at[0] > 0 && text[at[0]-1] == '<'; {
		case is && len(of) <= 64 && !behind:
			out = append(out, literal.Literal{Text: of, Label: label})
		case letters >= 4 && len(of) <= 24:
			label = of
		}
	}
	return out, label
}

var (
	run      = regexp.MustCompile(`[A-Za-z0-9_#@./\-]+`)
	capitals = regexp.MustCompile(`^[A-Z]{6}$`)
)

// naive is a slow reading of the rule for a whole message.
func naive(text, arguments string) (out []string) {
	found, label := all(text, false, "")
	more, _ := all(arguments, true, label)
	found = append(found, more...)
	var taken []literal.Literal // last first
	bytes := 0
	for i := len(found) - 1; i >= 0 && len(taken) < literal.Most; i-- {
		is := found[i]
		if slices.ContainsFunc(taken, func(l literal.Literal) bool { return l.Text == is.Text }) {
			continue
		}
		bytes += len(is.Text)
		if len(taken) == 0 || taken[len(taken)-1].Label != is.Label {
			bytes += len(is.Label)
		}
		if bytes > literal.MaxList {
			break
		}
		taken = append(taken, is)
	}
	for _, is := range slices.Backward(taken) {
		out = append(out, is.Label+":"+is.Text)
	}
	return out
}

// The literals of any message are those of the slow reading, and survive being stored.
func FuzzOf(f *testing.F) {
	f.Add(`{"user_id": "mia_li_3668"} is mia@x.org, <a1b2> ZFAOKY`, `{"path":"/a/b/c.go","line":123,"s":"\nA1B2é"}`)
	f.Add(strings.Repeat("key A1234 A1235 other/path ", 20), `"\`)
	f.Add("a.b-c/ --12a/.. ./x/y/z", `\u12`)
	f.Fuzz(func(t *testing.T, text, arguments string) {
		// The regular expressions of the slow reading work on characters, so bytes beyond ASCII are checked by examples.
		text, arguments = ascii(text), ascii(arguments)
		l := literal.Of(text, arguments)
		got := texts(l)
		if want := naive(text, arguments); !slices.Equal(got, want) {
			t.Fatalf("%q, %q: %q, want %q", text, arguments, got, want)
		}
		if len(l) > literal.MaxPacked || !l.Known() || l.Len() != len(got) {
			t.Fatalf("%d bytes, known %t, %d literals, want %d", len(l), l.Known(), l.Len(), len(got))
		}
		again, rest, ok := literal.Parse(append([]byte(l), "rest"...))
		if again != l || string(rest) != "rest" || !ok {
			t.Fatalf("%q is read as %q, %q, %t", l, again, rest, ok)
		}
	})
}

func ascii(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x80 {
			return 'A' + r%26
		}
		return r
	}, s)
}

// Any bytes are refused, or are a list whose literals can be visited.
func FuzzParse(f *testing.F) {
	f.Add([]byte(literal.Of("user_id mia_li_3668, flight HAT271, HAT197")))
	f.Add([]byte{0})
	f.Add([]byte{1, 0xff, 3, 'a', 'b', 'c'})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, rest, ok := literal.Parse(b)
		if !ok {
			return
		}
		if n := len(texts(l)); n != l.Len() || len(l)+len(rest) != len(b) {
			t.Fatalf("%d literals of %d, %d and %d bytes of %d", n, l.Len(), len(l), len(rest), len(b))
		}
	})
}

func BenchmarkOf(b *testing.B) {
	text := strings.Repeat(`{"user_id": "mia_li_3668", "name": "Mia Li", "address": "975 Sunset Drive, Suite 217, Austin", `+
		`"reservations": ["ZFAOKY", "4WQ150"], "notes": "The customer asked twice whether the earlier flight was still available."}`+"\n", 40)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		literal.Of(text)
	}
}
