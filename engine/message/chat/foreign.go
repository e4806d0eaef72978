package chat

import "github.com/seed-0906e6bc/mneme/engine/message/rawjson"

// checkFormat rejects a message that is evidently of another format than the given one. It would lose content, or the
// provider would refuse every window that contains it.
func checkFormat(f Format, o *object) *problem {
	of, what := foreign(f, o)
	if of == 0 {
		return nil
	}
	return &problem{CodeWrongFormat, what + ` is of ` + of.String() + `, not of ` + f.String() + `; give "format":"` +
		of.String() + `"`}
}

// foreign returns the other format that a message evidently has, and what shows it. It returns 0 if the message may be
// of format f.
func foreign(f Format, o *object) (of Format, what string) {
	role, kind := o.Text("role"), o.Text("type")
	switch {
	case f != OpenAIResponses && role == "" && kind != "" && kind != a2aType:
		return OpenAIResponses, "an item of type " + quoteForDetail([]byte(kind))
	case f != OpenAIChat && role == "tool":
		return OpenAIChat, "a message of role tool"
	case f != OpenAIChat && role == "assistant" && rawjson.IsArray(o.Get("tool_calls")):
		return OpenAIChat, "the member tool_calls"
	case role == "" || !rawjson.IsArray(o.Get("content")):
		return 0, ""
	}
	content := o.Get("content")
	for from, to := range rawjson.Elements(content) {
		part, bad := readObject(content[from:to])
		if bad != nil {
			continue
		}
		is := formatOfPart(&part)
		if is == 0 || is == f {
			continue
		}
		// Text parts do not distinguish the formats that have them; another part may.
		of, what = is, "a content part of type "+quoteValue(part.Get("type"))
		if part.Text("type") != "text" {
			return of, what
		}
		if f != OpenAIResponses {
			of = 0
		}
	}
	return of, what
}

// formatOfPart returns the only format that has parts of such a type, or 0 if several have it or it is unknown. For
// type text it returns OpenAIChat, though Anthropic has it too.
func formatOfPart(o *object) Format {
	switch o.Text("type") {
	case "text", "image_url":
		return OpenAIChat
	case "input_text", "output_text", "input_image", "input_file":
		return OpenAIResponses
	case "tool_use", "tool_result", "redacted_thinking", "server_tool_use":
		return AnthropicMessages
	case "thinking":
		if o.Text("signature") != "" {
			return AnthropicMessages
		}
	case "image", "document":
		if rawjson.IsObject(o.Get("source")) {
			return AnthropicMessages
		}
	}
	return 0
}
