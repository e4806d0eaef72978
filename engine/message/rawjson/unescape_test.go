package rawjson_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// String returns what encoding/json returns.
func FuzzString(f *testing.F) {
	for _, raw := range []string{`""`, `"plain"`, `"a\nb\tc\r\b\f\/\\\""`, `"\u00e9\u00E9\u0000"`, `"\ud83d\ude42"`, `"\ud83d"`,
		`"\ude42x"`, `"\ud83d\ud83d\ude42"`, `"\ud83d\n"`, `"\ud83d\u0041"`, "\"\xff\"", "\"\\n\xff\"", `"{\"a\":\"b\\nc\"}"`, `"é\\"`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want string
		if len(raw) == 0 || raw[0] != '"' || !json.Valid(raw) || raw[len(raw)-1] != '"' || json.Unmarshal(raw, &want) != nil {
			return
		}
		if !utf8.Valid(raw) && !bytes.Contains(raw, []byte{'\\'}) {
			want = string(raw[1 : len(raw)-1]) // encoding/json does the same only if something is escaped
		}
		if got, ok := rawjson.String(raw); !ok || got != want {
			t.Errorf("%s: got %q, %v, want %q", raw, got, ok, want)
		}
	})
}

func BenchmarkString(b *testing.B) {
	raw := []byte(`"{\"name\":\"search\",\n\"arguments\":{\"query\":\"a longer text without anything to escape in it\"}}"`)
	for b.Loop() {
		if _, ok := rawjson.String(raw); !ok {
			b.Fatal("it is a string")
		}
	}
}
