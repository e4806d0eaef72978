package chat

import "github.com/seed-0906e6bc/mneme/engine/splice"

// Formats, fragments and the builder that joins them to windows are package splice's. They stand here under their names
// too, because whoever renders a message goes on to build a window.
type (
	Format   = splice.Format
	Fragment = splice.Fragment
	Builder  = splice.Builder
	Window   = splice.Window
)

// The formats. The zero Format marks a message that no client posted.
const (
	OpenAIChat        = splice.OpenAIChat
	AnthropicMessages = splice.AnthropicMessages
	OpenAIResponses   = splice.OpenAIResponses
	Text              = splice.Text // output only
)

// Placeholder is the text where a format demands one and there is none.
const Placeholder = splice.Placeholder

// ParseFormat returns the format of that name, or false where there is none.
func ParseFormat(name string) (Format, bool) { return splice.ParseFormat(name) }

func appendRole(dst []byte, role string) []byte { return splice.AppendRole(dst, role) }

func appendTextPart(dst []byte, typ, text string) []byte {
	return splice.AppendTextPart(dst, typ, text)
}
