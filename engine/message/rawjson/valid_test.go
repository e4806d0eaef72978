package rawjson

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

var validSeeds = []string{
	`{}`, `[]`, `""`, `0`, `-0`, `-`, `01`, `1.`, `.5`, `1e`, `1e+`, `1E-5`, `-1.25e+10`, `tru`, `true`, `nulll`, ` null `, ``, ` `,
	`{"a":1}`, `{"a":1,}`, `{"a" 1}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":[{},[],"",0,true]}`, `[1,2`, `[1 2]`, `[,]`, `[1,]`,
	`{"a":1}}`, `[1]]`, `{]`, `[}`, `"\u12aF"`, `"\u12g4"`, `"\u12"`, `"\x"`, `"\`, `"a`, `"a\"b\\"`, "\"a\tb\"", "\"\x7f\x80\xff\"",
	"\"12345678\x1f\"", `"1234567\"8"`, `"12345678`, `1 2`, `[1]x`, "\ufeff{}", "\x00", `{"":""}`, `"é\ud800"`, `[[[[[[]]]]]]`,
	strings.Repeat(" ", 9) + `"` + strings.Repeat("word ", 9) + `\n"`,
}

// FuzzValid compares Valid with json.Valid.
func FuzzValid(f *testing.F) {
	for _, s := range validSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := Valid(b), json.Valid(b); got != want {
			t.Errorf("%q is valid: %t, want %t", b, got, want)
		}
	})
}

// TestCampaignValid mutates texts, most of which are then almost valid.
func TestCampaignValid(t *testing.T) {
	seed := campaign.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	signs := []byte("{}[]\",:\\-+.eE0159tfnul \n\t\x00\x1f\x80/")
	valid := 0
	for range campaign.Size(200_000, 20_000_000) {
		b := []byte(validSeeds[random.IntN(len(validSeeds))])
		for range random.IntN(4) {
			at, sign := random.IntN(len(b)+1), signs[random.IntN(len(signs))]
			switch {
			case random.IntN(2) == 0 || at == len(b):
				b = append(b[:at:at], append([]byte{sign}, b[at:]...)...)
			case random.IntN(2) == 0:
				b = append(b[:at:at], b[at+1:]...)
			default:
				b[at] = sign
			}
		}
		got, want := Valid(b), json.Valid(b)
		if got != want {
			t.Fatalf("seed %d: %q is valid: %t, want %t", seed, b, got, want)
		}
		if want {
			valid++
		}
	}
	if valid == 0 {
		t.Error("no text was valid")
	}
}

// TestValidDepth expects the same nesting limit as encoding/json.
func TestValidDepth(t *testing.T) {
	for _, depth := range []int{maxDepth, maxDepth + 1} {
		for _, nested := range []string{strings.Repeat("[", depth) + strings.Repeat("]", depth),
			strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1)} {
			if got, want := Valid([]byte(nested)), json.Valid([]byte(nested)); got != want {
				t.Errorf("depth %d of %q is valid: %t, want %t", depth, nested[:1], got, want)
			}
		}
	}
}

func BenchmarkValid(b *testing.B) {
	message := `{"role":"user","content":"` + strings.Repeat("What is said of it? ", 12) + `","tags":["a",1,null]}`
	long := []byte(`{"messages":[` + strings.Repeat(message+",", 400) + message + `]}`)
	m := benchtest.Compare(b, 10, func(n int) {
		for range n {
			Valid(long)
		}
	}, func(n int) {
		for range n {
			json.Valid(long)
		}
	})
	b.ReportMetric(m.Ratio, "x-encoding/json")
	b.SetBytes(int64(len(long)))
}
