package hostapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// errNotJSON is returned for a text in which no pointer can be looked up.
var errNotJSON = errors.New("not JSON")

// jsonAt returns what a JSON pointer (RFC 6901) names in a text: a string without its quotes and escapes, anything else
// as it is written there; nil if there is nothing. Of members with the same name the last one counts, as for
// encoding/json.
func jsonAt(text []byte, pointer string) ([]byte, error) {
	if !json.Valid(text) {
		return nil, errNotJSON
	}
	at := bytes.TrimSpace(text)
	if pointer != "" {
		if pointer[0] != '/' {
			return nil, nil
		}
		for token := range strings.SplitSeq(pointer[1:], "/") {
			if at = member(at, strings.NewReplacer("~1", "/", "~0", "~").Replace(token)); at == nil {
				return nil, nil
			}
		}
	}
	if at[0] == '"' {
		return unquoted(at), nil
	}
	return at, nil
}

// member returns a member of an object or an element of an array, or nil. text is valid JSON without space around it.
func member(text []byte, token string) (found []byte) {
	if text[0] != '{' && text[0] != '[' {
		return nil
	}
	n := 0
	for at := next(text, 1); text[at] != '}' && text[at] != ']'; n++ {
		name := strconv.Itoa(n)
		if text[0] == '{' {
			end := valueEnd(text, at)
			name = string(unquoted(text[at:end]))
			at = next(text, next(text, end)+1) // behind the colon
		}
		end := valueEnd(text, at)
		if name == token {
			found = text[at:end]
		}
		if at = next(text, end); text[at] == ',' {
			at = next(text, at+1)
		}
	}
	return found
}

// next returns the position of the first byte from a position on that is not white space.
func next(text []byte, at int) int {
	for text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r' {
		at++
	}
	return at
}

// valueEnd returns the position after the value at a position.
func valueEnd(text []byte, at int) int {
	nested, quoted := 0, false
	for i := at; i < len(text); i++ {
		switch b := text[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			if quoted = !quoted; !quoted && nested == 0 {
				return i + 1
			}
		case quoted:
		case b == '{' || b == '[':
			nested++
		case (b == '}' || b == ']') && nested > 0:
			if nested--; nested == 0 {
				return i + 1
			}
		case nested == 0 && (b == ',' || b == '}' || b == ']' || b == ' ' || b == '\t' || b == '\n' || b == '\r'):
			return i
		}
	}
	return len(text)
}

// unquoted returns the contents of a JSON string.
func unquoted(quoted []byte) []byte {
	if utf8.Valid(quoted) && bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // it is valid
	return []byte(s)
}
