package chat

import (
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

type (
	object = rawjson.Object
	field  = rawjson.Field
)

// readObject finds the members of a valid JSON object. A duplicate name is a problem.
func readObject(raw []byte) (object, *problem) {
	o, twice, ok := rawjson.ReadObject(raw)
	switch {
	case !ok:
		return o, &problem{CodeMalformed, "must be a JSON object"}
	case twice != nil:
		return o, &problem{CodeDuplicateField, "the field " + quoteForDetail(twice) + " appears twice; send it once"}
	}
	return o, nil
}

// quoteForDetail quotes at most 40 bytes of a client's own text for an error message. It escapes nothing, because
// encoding the response as JSON does.
func quoteForDetail(s []byte) string {
	const most = 40
	if len(s) > most {
		s = append(s[:most:most], "..."...)
	}
	return `"` + strings.ToValidUTF8(string(s), "\uFFFD") + `"`
}

// quoteValue quotes a value for an error message: a string's text, or the JSON of any other value.
func quoteValue(raw []byte) string {
	if text, ok := rawjson.String(raw); ok {
		raw = []byte(text)
	}
	return quoteForDetail(raw)
}
