package rawjson_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

func TestLoneSurrogate(t *testing.T) {
	for raw, want := range map[string]bool{
		`"plain"`: false, `"\ud83d\ude42"`: false, `"\ud83d"`: true, `"\ude42"`: true, `"\ud83d\ud83d\ude42"`: true,
		`"\\ud83d"`: false, `"\\\ud83d"`: true, `"\ud83dx"`: true, `"\ud83d\n"`: true, `"é\n"`: false,
		`{"a":"b","\udfff":1}`: true, `"\uD83D\uDE42"`: false, `"\ufffd"`: false, `"\ud83d\\ude42"`: true,
	} {
		if rawjson.LoneSurrogate([]byte(raw)) != want {
			t.Errorf("%s: want %v", raw, want)
		}
	}
}

// FuzzLoneSurrogate compares the scan with a separate implementation: encoding/json with the halves made visible.
func FuzzLoneSurrogate(f *testing.F) {
	f.Add(`"\ud83d\ude42"`)
	f.Add(`"\ud83d"`)
	f.Fuzz(func(t *testing.T, raw string) {
		if !json.Valid([]byte(raw)) {
			t.Skip()
		}
		if got, want := rawjson.LoneSurrogate([]byte(raw)), naive(raw); got != want {
			t.Errorf("%q: %v", raw, got)
		}
	})
}

// naive removes the other escapes, and then checks each \u escape with its neighbour.
func naive(raw string) bool {
	raw = strings.ReplaceAll(raw, `\\`, "  ")
	parts := strings.Split(raw, `\u`)
	for i := 1; i < len(parts); i++ {
		unit := unitOf(parts[i])
		if !utf16.IsSurrogate(unit) {
			continue
		}
		if i+1 == len(parts) || len(parts[i]) != 4 || utf16.DecodeRune(unit, unitOf(parts[i+1])) == 0xfffd {
			return true
		}
		i++
	}
	return false
}

func unitOf(part string) rune {
	n := rune(0)
	for _, c := range strings.ToLower(part[:4]) {
		n = n<<4 | rune(strings.IndexRune("0123456789abcdef", c))
	}
	return n
}
