package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Text returns the names and values in JSON as words, one value per line, without escapes and brackets. It returns
// input that is not JSON unchanged.
func Text(raw []byte) string {
	var value any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // so that 1234567 does not become 1.234567e+06
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
