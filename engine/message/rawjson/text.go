package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Text gives the names and values of JSON as words, a value a line: escapes and brackets are none. What is no JSON is
// given as it stands.
func Text(raw []byte) string {
	var value any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // 1234567 is no 1.234567e+06
	if d.Decode(&value) != nil {
		return string(raw)
	}
	var b strings.Builder
	var say func(v any)
	say = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				fmt.Fprintf(&b, "%s: ", name)
				say(v[name])
			}
		case []any:
			for _, one := range v {
				say(one)
			}
		case nil:
		default:
			fmt.Fprintf(&b, "%v\n", v)
		}
	}
	say(value)
	return b.String()
}
