package rawjson

import (
	"bytes"
	"encoding/json"
)

// AppendMembers ends a JSON object that members were appended to by hand: it appends those of v, of which there must be
// one, and the closing brace.
func AppendMembers(dst []byte, v any) ([]byte, error) {
	at := len(dst)
	dst, err := AppendJSON(dst, v)
	if err == nil {
		dst[at] = ',' // in place of the opening brace
	}
	return dst, err
}

// AppendJSON appends the JSON of v.
func AppendJSON(dst []byte, v any) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false) // windows are for models
	if err := enc.Encode(v); err != nil {
		return dst, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
