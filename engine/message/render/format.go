// Package render joins rendered messages into windows. A fragment is what one message contributes in one format. A
// Builder splices fragments and notices together, byte for byte, with the edits that a window requires. Package chat
// turns messages into fragments.
package render

// Format is a provider's wire format, or flat text.
type Format uint8

// The formats. The zero Format marks a message that no client posted.
const (
	OpenAIChat        Format = 1
	AnthropicMessages Format = 2
	OpenAIResponses   Format = 3
	Text              Format = 4 // output only
)

// String returns the format's name in the HTTP API, or "" for the zero Format.
func (f Format) String() string {
	switch f {
	case OpenAIChat:
		return "openai.chat"
	case AnthropicMessages:
		return "anthropic.messages"
	case OpenAIResponses:
		return "openai.responses"
	case Text:
		return "text"
	}
	return ""
}

// ParseFormat returns the format with that name, or false if there is none.
func ParseFormat(name string) (Format, bool) {
	for _, f := range []Format{OpenAIChat, AnthropicMessages, OpenAIResponses, Text} {
		if f.String() == name {
			return f, true
		}
	}
	return 0, false
}
