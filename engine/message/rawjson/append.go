package rawjson

import (
	"bytes"
	"encoding/json"
)

// AppendName appends the name of the next member of an object, with the comma before it, if needed, and the colon after
// it. The name must not need escapes.
func AppendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(append(dst, '"'), name...), '"', ':')
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
