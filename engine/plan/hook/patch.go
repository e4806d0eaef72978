package hook

import (
	"bytes"
	"encoding/json"
	"errors"
)

// MergePatch applies a JSON merge patch (RFC 7396) to a document. Both must be JSON; a patch that is no object replaces
// the document.
func MergePatch(document, patch []byte) ([]byte, error) {
	var target, change any
	if err := decode(document, &target); err != nil {
		return nil, err
	}
	if err := decode(patch, &change); err != nil {
		return nil, err
	}
	return json.Marshal(merge(target, change))
}

// decode decodes JSON and keeps numbers as they are written.
func decode(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(to); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more follows after the JSON value")
	}
	return nil
}

// merge is MergePatch of the RFC.
func merge(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	members, ok := target.(map[string]any)
	if !ok {
		members = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(members, name)
		} else {
			members[name] = merge(members[name], value)
		}
	}
	return members
}
