package providers

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// emptyArray, maxLength, invalidValue, isString and toolName are refusals of both OpenAI APIs.

func emptyArray(at string) *Refusal { // unquoted
	return refuse("Invalid '%s': empty array. Expected an array with minimum length 1, but got an empty array "+
		"instead.", at).
		at("%s", at).coded("empty_array")
}

// maxLength uses the text of vercel/ai#5171 for strings and of zed#32946 for arrays.
func maxLength(at string, n, most int, kind string) *Refusal {
	if n <= most {
		return nil
	}
	article, code := "a", "string_above_max_length"
	if kind == "array" {
		article, code = "an", "array_above_max_length"
	}
	return refuse("Invalid '%s': %s too long. Expected %s %s with maximum length %d, but got %s %s with length %d "+
		"instead.",
		at, kind, article, kind, most, article, kind, n).at("%s", at).coded(code)
}

func invalidValue(got, supported string) *Refusal { // unquoted
	return refuse("Invalid value: '%s'. Supported values are: %s.", got, supported).coded("invalid_value")
}

func isString(at string, v any) *Refusal { // unquoted
	if _, ok := v.(string); ok {
		return nil
	}
	return refuse("Invalid type for '%s': expected a string, but got %s instead.", at, typeName(v)).at("%s", at).
		coded("invalid_type")
}

var legalName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// toolName checks a name against oa function_definition: letters, digits, _ and -, at most 64. Unquoted.
func toolName(at, name string) *Refusal {
	if refusal := maxLength(at, len(name), 64, "string"); refusal != nil {
		return refusal
	}
	if !legalName.MatchString(name) {
		return refuse("Invalid '%s': string does not match pattern. Expected a string that matches the pattern "+
			"'^[a-zA-Z0-9_-]+$'.", at).at("%s", at).coded("invalid_value")
	}
	return nil
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return "a string"
}

// chatRoles has the types of parts that each role may have, and the member that each type needs.
var chatRoles = map[string][]string{
	"system": {"text"}, "developer": {"text"}, "tool": {"text"}, "function": {"text"},
	"user":      {"text", "image_url", "input_audio", "file"},
	"assistant": {"text", "refusal"},
}

var chatPartMembers = map[string]string{"text": "text", "image_url": "image_url", "input_audio": "input_audio",
	"file": "file", "refusal": "refusal"}

// chatParts checks a message's content: a string, null, or parts that its role may have.
func chatParts(_ *chatRequest, i int, m object) *Refusal {
	var parts []any
	switch content := m["content"].(type) {
	case nil, string:
		return nil
	case []any:
		parts = content
	default:
		return refuse("Invalid type for 'messages[%d].content': expected one of a string or array of objects, but "+
			"got %s "+
			"instead.", i, typeName(content)).at("messages[%d].content", i).coded("invalid_type")
	}
	if len(parts) == 0 {
		return emptyArray(fmt.Sprintf("messages[%d].content", i))
	}
	for j, p := range objects(parts) {
		kind, at := p.str("type"), fmt.Sprintf("messages[%d].content[%d]", i, j)
		if allowed := chatRoles[m.str("role")]; !slices.Contains(allowed, kind) {
			return invalidValue(kind, "'"+strings.Join(allowed, "', '")+"'").at("%s.type", at)
		}
		member := chatPartMembers[kind]
		if !p.has(member) {
			return refuse("Missing required parameter: '%s.%s'.", at, member).at("%s.%s", at, member).
				coded("missing_required_parameter")
		}
		if extra := p.unknown("type", member, "prompt_cache_breakpoint"); len(extra) > 0 {
			return refuse("Unknown parameter: '%s.%s'.", at, extra[0]).at("%s.%s", at,
				extra[0]).coded("unknown_parameter")
		}
		if file := p.object("file"); kind == "file" && !file.has("file_id") && !file.has("file_data") {
			return refuse("Missing required parameter: '%s.file.file_id'.", at).at("%s.file.file_id", at).
				coded("missing_required_parameter")
		}
	}
	return nil
}

var dataURL = regexp.MustCompile(`^data:([a-z]+/[a-z0-9.+-]+);base64,`)

// openAIImages checks the number and formats of a request's images.
func openAIImages(at string, urls []string) *Refusal {
	if refusal := maxLength(at, len(urls), 1500, "array"); refusal != nil {
		return refusal
	}
	for _, url := range urls {
		if strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") {
			continue
		}
		kind := dataURL.FindStringSubmatch(url)
		if kind == nil {
			return refuse("Invalid image URL: the URL is neither http(s) nor base64 "+
				"data.").at("%s", at).coded("invalid_image_url")
		}
		if !slices.Contains([]string{"image/png", "image/jpeg", "image/webp", "image/gif"}, kind[1]) {
			return refuse("You uploaded an unsupported image. Please make sure your image has of one the following "+
				"formats: "+
				"['png', 'jpeg', 'gif', 'webp'].").at("%s", at).coded("invalid_image_format")
		}
	}
	return nil
}

// tokens counts the tokens of a chat request as OpenAI's cookbook does: its texts, three for each message, one for a
// name, and three in total.
func (r *chatRequest) tokens() int {
	n := 3
	for _, m := range r.messages {
		n += 3 + r.texts(m["content"]) + r.count(m.str("role"))
		if m.has("name") {
			n += 1 + r.count(m.str("name"))
		}
		for _, call := range objects(m.list("tool_calls")) {
			n += r.count(call.object("function").str("name")) + r.count(call.object("function").str("arguments"))
		}
	}
	if tools := r.body.list("tools"); len(tools) > 0 {
		n += 12 + r.count(string(encode(tools)))
	}
	return n
}

// untold are members whose text a model does not read as text: data, which is counted elsewhere or not at all, and
// names of types.
var untold = []string{"type", "data", "url", "signature", "encrypted_content", "file_data", "cache_control"}

// texts counts the tokens of all text in a content.
func (o *options) texts(content any) int {
	n := 0
	switch c := content.(type) {
	case nil:
	case string:
		n = o.count(c)
	case []any:
		for _, part := range c {
			n += o.texts(part)
		}
	case map[string]any:
		for key, v := range c {
			if !slices.Contains(untold, key) {
				n += o.texts(v)
			}
		}
	default:
		n = 1
	}
	return n
}
